// The parts that `composed` can be made of, and its parameters. A new part is its own file and one
// row in composed_info.cc.
#ifndef SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_INFO_H_
#define SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_INFO_H_

#include <memory>

#include "policies/api/policy.h"
#include "policies/parts/admission.h"
#include "policies/parts/batcher.h"
#include "policies/parts/router.h"
#include "policies/parts/scaler.h"
#include "policies/parts/victim_order.h"

namespace schedtwin {

const PolicyInfo& ComposedInfo();

struct ComposedParts {
  VictimOrder victim_order;
  std::unique_ptr<Router> router;
  std::unique_ptr<Admission> admission;
  std::unique_ptr<Batcher> batcher;
  std::unique_ptr<Scaler> scaler;  ///< none: there are as many devices as at the start
};

/// Those that the parameters name.
ComposedParts MakeParts(const Parameters& parameters);

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_INFO_H_
