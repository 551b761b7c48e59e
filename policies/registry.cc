#include "policies/registry.h"

#include <array>

#include "policies/clockwork/clockwork.h"
#include "policies/composed/composed.h"
#include "policies/conserve/conserve.h"
#include "policies/dynamic_batch/dynamic_batch.h"
#include "policies/fastserve/fastserve.h"
#include "policies/fifo/fifo.h"
#include "policies/hygen/hygen.h"
#include "policies/immediate/immediate.h"
#include "policies/llumnix/llumnix.h"
#include "policies/static_batch/static_batch.h"
#include "policies/triton_dynamic/triton_dynamic.h"
#include "policies/vllm_v1/vllm_v1.h"
#include "policies/vtc/vtc.h"

namespace schedtwin {

std::span<const PolicyInfo* const> Policies() {
  static const std::array<const PolicyInfo*, 13> kPolicies = {
      &ClockworkInfo(), &ComposedInfo(),    &ConserveInfo(),      &DynamicBatchInfo(),
      &FastServeInfo(), &FifoInfo(),        &HygenInfo(),         &ImmediateInfo(),
      &LlumnixInfo(),   &StaticBatchInfo(), &TritonDynamicInfo(), &VllmV1Info(),
      &VtcInfo()};
  return kPolicies;
}

const PolicyInfo* FindPolicy(std::string_view name) {
  for (const PolicyInfo* info : Policies()) {
    if (info->name == name) return info;
  }
  return nullptr;
}

}  // namespace schedtwin
