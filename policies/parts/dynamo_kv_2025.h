// DynamoKv2025: NVIDIA Dynamo's KV-aware router as it was first released: the device with the
// greatest
//
//   2 * share of the prompt cached there - KV usage - waiting / (the most that wait anywhere)
//
// by what devices report; of equals one at random. With `optimistic` it adds to the last report
// what it has sent since that came: a request that waits, and the blocks of its prompt that are not
// cached; the next report overwrites both, as in the source. A device that has not reported counts
// as empty.
//
// Source: lib/llm/src/kv_router/scheduler.rs of ai-dynamo/dynamo at 00564be8. Two defects of it are
// mended, since with the first it cannot run: it gave up for good ("no endpoints") when nobody
// waited anywhere, where this takes waiting as 0; and it took min(prompt blocks, 1) for the blocks
// of a prompt. What is cached where is known at once, as by KV events without delay.
#ifndef SCHEDTWIN_POLICIES_PARTS_DYNAMO_KV_2025_H_
#define SCHEDTWIN_POLICIES_PARTS_DYNAMO_KV_2025_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policies/parts/router.h"

namespace schedtwin {

class DynamoKv2025 final : public Router {
 public:
  explicit DynamoKv2025(bool optimistic = true) : optimistic_(optimistic) {}

  DeviceId Pick(const Context& context, RequestId request) override {
    known_.resize(std::max(known_.size(), context.devices().size()));
    std::uint64_t most_waiting = 0;
    for (const DeviceView& device : context.devices()) {
      if (!TakesRequests(device)) continue;
      most_waiting = std::max(most_waiting, known_[device.id.value].waiting);
    }
    return CheapestEvenly(
        context, context.rng("dynamo_kv_2025", request.value),
        [&](const DeviceView& device) { return -Score(context, request, device, most_waiting); });
  }
  void OnSent(const Context& context, RequestId request, DeviceId device) override {
    if (!optimistic_) return;
    const std::uint32_t block_tokens = context.device(device).block_tokens;
    Known& known = known_[device.value];
    ++known.waiting;
    if (block_tokens == 0) return;
    const std::uint32_t required = context.request(request).prompt_tokens() / block_tokens;
    known.active_blocks += required - context.cache(device).HitTokens(request) / block_tokens;
  }
  void OnReport(const DeviceReport& report) override {
    if (report.id.value >= known_.size()) known_.resize(report.id.value + 1);
    known_[report.id.value] = {report.waiting, report.total_blocks - report.free_blocks};
  }

 private:
  struct Known {
    std::uint64_t waiting = 0;
    std::uint64_t active_blocks = 0;
  };

  double Score(const Context& context, RequestId request, const DeviceView& device,
               std::uint64_t most_waiting) const {
    const Known& known = known_[device.id.value];
    const double prompt = std::max(context.request(request).prompt_tokens(), 1u);
    const double overlap = context.cache(device.id).HitTokens(request) / prompt;
    const double usage =
        static_cast<double>(known.active_blocks) / std::max(device.total_blocks, 1u);
    const double waiting = static_cast<double>(known.waiting) /
                           static_cast<double>(std::max<std::uint64_t>(most_waiting, 1));
    return 2 * overlap - usage - waiting;
  }

  bool optimistic_;
  std::vector<Known> known_;  ///< by device
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_DYNAMO_KV_2025_H_
