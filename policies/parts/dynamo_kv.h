// DynamoKv: NVIDIA Dynamo's KV-aware router of 2026: the device with the least cost in blocks,
//
//   prefill_load_scale * max(0, prompt blocks active there and this prompt's, less the credit)
//     + KV blocks active there with this prompt + decode_active_request_weight * requests active
//   credit = overlap_score_credit / (1 + decay * excess / this prompt's blocks)
//              * blocks of the prompt that are cached there
//
// where `excess` is the prompt blocks active there above the least of all. The load is the router's
// own count of what it has sent (ActivePrompts), current whatever is reported. Equal costs: one of
// them at random. At a temperature above 0 one is drawn by softmax over costs scaled to [0, 1].
//
// Source: lib/kv-router/src/scheduling/selector.rs of ai-dynamo/dynamo at 01690d42 (logit and
// choice), config.rs (defaults). Not here: credits for host, disk and shared tiers, which hold no
// prefix here; taints, pinned workers and the router's own queue. What is cached where is known at
// once, as by KV events without delay.
#ifndef SCHEDTWIN_POLICIES_PARTS_DYNAMO_KV_H_
#define SCHEDTWIN_POLICIES_PARTS_DYNAMO_KV_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "policies/parts/active_prompts.h"
#include "policies/parts/router.h"

namespace schedtwin {

class DynamoKv final : public Router {
 public:
  struct Options {
    double overlap_score_credit = 1;
    double overlap_score_credit_decay = 0;
    double prefill_load_scale = 1;
    double decode_active_request_weight = 0;
    double temperature = 0;
  };

  explicit DynamoKv(const Options& options) : options_(options) {}
  DynamoKv() : DynamoKv(Options()) {}

  DeviceId Pick(const Context& context, RequestId request) override {
    prompts_.resize(context.devices().size());
    least_prefill_tokens_ = std::numeric_limits<std::uint64_t>::max();
    for (const DeviceView& device : context.devices()) {
      if (!TakesRequests(device)) continue;
      least_prefill_tokens_ =
          std::min(least_prefill_tokens_, prompts_[device.id.value].prefill_tokens());
    }
    const Rng rng = context.rng("dynamo_kv", request.value);
    if (options_.temperature == 0) {
      return CheapestEvenly(
          context, rng, [&](const DeviceView& device) { return Cost(context, request, device); });
    }
    return Drawn(context, request, rng);
  }
  void OnSent(const Context& context, RequestId request, DeviceId device) override {
    const std::uint32_t prompt = context.request(request).prompt_tokens();
    const std::uint32_t cached = context.cache(device).HitTokens(request);
    prompts_[device.value].Add(request, prompt - std::min(prompt, cached),
                               context.cache(device).PromptBlocks(request),
                               prompt / BlockTokens(context.device(device)));
  }
  void OnPrefilled(const Context&, RequestId request, DeviceId device) override {
    prompts_[device.value].Prefilled(request);
  }
  void OnEnd(const Context& context, RequestId request, DeviceId device) override {
    prompts_[device.value].Remove(
        request, context.cache(device).PromptBlocks(request),
        context.request(request).prompt_tokens() / BlockTokens(context.device(device)));
  }

  /// What sending it there would cost, in blocks. REQUIRES: Pick was asked for it last.
  double Cost(const Context& context, RequestId request, const DeviceView& device) const {
    const ActivePrompts& active = prompts_[device.id.value];
    const double block = BlockTokens(device);
    const std::uint32_t prompt = context.request(request).prompt_tokens();
    const double cached_blocks = context.cache(device.id).HitTokens(request) / block;
    double credit = options_.overlap_score_credit * cached_blocks;
    if (options_.overlap_score_credit_decay > 0) {
      const auto excess =
          static_cast<double>(active.prefill_tokens() - least_prefill_tokens_) / block;
      const std::uint32_t blocks = (prompt + BlockTokens(device) - 1) / BlockTokens(device);
      credit /= 1 + options_.overlap_score_credit_decay * excess / std::max(blocks, 1u);
    }
    const double prefill_blocks =
        static_cast<double>(active.prefill_tokens() + prompt) / block - credit;
    const std::uint64_t decode_blocks =
        active.blocks() + active.AdditionalBlocks(context.cache(device.id).PromptBlocks(request),
                                                  prompt / BlockTokens(device));
    return options_.prefill_load_scale * std::max(0.0, prefill_blocks) +
           static_cast<double>(decode_blocks) +
           options_.decode_active_request_weight * static_cast<double>(active.requests());
  }

 private:
  struct Choice {
    DeviceId device;
    double cost;
  };

  /// A model that keeps no KV is counted in tokens.
  static std::uint32_t BlockTokens(const DeviceView& device) {
    return std::max(device.block_tokens, 1u);
  }

  DeviceId Drawn(const Context& context, RequestId request, Rng rng) {
    costs_.clear();
    for (const DeviceView& device : context.devices()) {
      if (TakesRequests(device)) costs_.push_back({device.id, Cost(context, request, device)});
    }
    if (costs_.empty()) return {};
    double least = costs_.front().cost, most = least, total = 0;
    for (const Choice& choice : costs_) {
      least = std::min(least, choice.cost);
      most = std::max(most, choice.cost);
    }
    const double scale = most > least ? 1 / ((most - least) * options_.temperature) : 0;
    for (Choice& choice : costs_) {
      choice.cost = FixedExp((least - choice.cost) * scale);
      total += choice.cost;
    }
    double left = rng.Uniform() * total;
    for (const Choice& choice : costs_) {
      if (left <= choice.cost) return choice.device;
      left -= choice.cost;
    }
    return costs_.back().device;
  }

  Options options_;
  std::vector<ActivePrompts> prompts_;  ///< by device
  std::uint64_t least_prefill_tokens_ = 0;
  std::vector<Choice> costs_;  ///< scratch
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_DYNAMO_KV_H_
