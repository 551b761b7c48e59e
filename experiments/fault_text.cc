#include "experiments/fault_text.h"

#include <cstddef>

#include "experiments/text.h"

namespace schedtwin {
namespace {

constexpr std::string_view kLoses = ",loses";

/// What stands after the first `separator` of `*text`, which is cut there; empty, and nothing is
/// cut, where nothing does.
std::string_view TakeTail(std::string_view* text, char separator) {
  const std::size_t at = text->find(separator);
  if (at == std::string_view::npos || at + 1 == text->size()) return {};
  const std::string_view tail = text->substr(at + 1);
  *text = text->substr(0, at);
  return tail;
}

}  // namespace

std::vector<FaultText> SplitFaults(std::string_view text) {
  std::vector<FaultText> faults;
  for (std::string_view rest : Split(text, ';')) {
    rest = Trim(rest);
    FaultText fault;
    fault.loses = rest.ends_with(kLoses);
    if (fault.loses) rest.remove_suffix(kLoses.size());
    std::string_view times = TakeTail(&rest, '@');
    fault.until = TakeTail(&times, '-');
    fault.at = times;
    fault.device = rest;
    faults.push_back(std::move(fault));
  }
  return faults;
}

std::string JoinFault(const FaultText& fault) {
  return Cat(fault.device, "@", fault.at, fault.until.empty() ? "" : Cat("-", fault.until),
             fault.loses ? kLoses : "");
}

}  // namespace schedtwin
