// Faults as text: DEVICE@AT[-UNTIL][,loses], such as "0@10s-20s,loses"; several are separated by
// ';'. The form in which an Experiment holds them and --fault takes them. Splits and joins only:
// whether a part makes sense says who reads it. Pure.
#ifndef SCHEDTWIN_EXPERIMENTS_FAULT_TEXT_H_
#define SCHEDTWIN_EXPERIMENTS_FAULT_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace schedtwin {

struct FaultText {
  std::string device, at;
  std::string until;  ///< empty: for ever
  bool loses = false;
};

std::vector<FaultText> SplitFaults(std::string_view text);
std::string JoinFault(const FaultText& fault);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_FAULT_TEXT_H_
