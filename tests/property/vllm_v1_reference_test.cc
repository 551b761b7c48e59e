// vllm_v1 against the engine's own loop, written down a second time as plainly as it can be:
// numbers of blocks and tokens, a queue of steps, no runtime, no plans, no fences. Source:
// vllm/v1/core/sched/scheduler.py (00024d31), async_scheduler.py (014b2350) and the batch queue of
// the engine. Random requests on scarce memory, whatever the settings and the form of the plans:
// every step must be the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Form;
using policy_testing::In;
using policy_testing::kForms;
using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;

#ifdef SCHEDTWIN_HARDENED
constexpr std::uint64_t kSeeds = 300;
#else
constexpr std::uint64_t kSeeds = 3000;
#endif

constexpr std::int64_t kBlockTokens = 4;

struct Config {
  std::int64_t budget, blocks, max_num_seqs, threshold;
  bool by_priority, full_sequence, async;
  double watermark;
};

struct Request {
  std::uint32_t id;
  RequestSpec spec;
  std::int64_t computed = 0, made = 0, placeholders = 0, blocks = 0;

  std::int64_t prompt() const { return spec.prompt_tokens; }
  std::int64_t max_tokens() const {
    return spec.max_new_tokens > 0 ? spec.max_new_tokens : std::numeric_limits<std::int32_t>::max();
  }
  bool finished() const { return made == spec.output_tokens; }
};

struct Scheduled {
  Request* request;
  std::int64_t tokens, context;
  bool samples;
};
using Step = std::vector<Scheduled>;

class Reference {
 public:
  Reference(const Config& config, const std::vector<RequestSpec>& specs)
      : config_(config), free_(config.blocks) {
    for (const RequestSpec& spec : specs) {
      requests_.push_back({static_cast<std::uint32_t>(requests_.size()), spec});
    }
  }

  /// The steps, one sorted line each.
  std::vector<std::vector<std::string>> Run() {
    const std::size_t depth = config_.async ? 2 : 1;
    for (;;) {
      while (arrived_ < requests_.size() && requests_[arrived_].spec.arrival.ns() <= now_) {
        waiting_.push_back(&requests_[arrived_++]);
      }
      Step step = Schedule();
      if (!step.empty()) in_flight_.push_back(std::move(step));
      const bool executed = !in_flight_.empty() && !last_was_empty_;
      if (executed && in_flight_.size() < depth) continue;
      // A step that had to preempt all that it began with is tried again.
      if (in_flight_.empty() && preempted_) continue;
      if (in_flight_.empty()) {
        if (arrived_ == requests_.size()) return lines_;
        now_ = requests_[arrived_].spec.arrival.ns();
        continue;
      }
      FinishStep();
    }
  }

 private:
  bool Allocate(Request* r, std::int64_t upto, std::int64_t keep = 0) {
    const std::int64_t missing = std::max<std::int64_t>(0, Blocks(upto) - r->blocks);
    if (missing + keep > free_) return false;
    free_ -= missing;
    r->blocks += missing;
    return true;
  }
  static std::int64_t Blocks(std::int64_t tokens) {
    return (tokens + kBlockTokens - 1) / kBlockTokens;
  }
  void Free(Request* r) {
    free_ += r->blocks;
    r->blocks = 0;
  }
  std::size_t Victim() const {
    std::size_t victim = running_.size() - 1;
    if (!config_.by_priority) return victim;
    const auto key = [&](std::size_t i) {
      return std::tuple(running_[i]->spec.priority, running_[i]->spec.arrival.ns(), i);
    };
    for (std::size_t i = 0; i < running_.size(); ++i) victim = key(i) > key(victim) ? i : victim;
    return victim;
  }
  std::size_t Head() const {
    std::size_t head = 0;
    if (!config_.by_priority) return head;
    const auto key = [&](std::size_t i) {
      return std::tuple(waiting_[i]->spec.priority, waiting_[i]->spec.arrival.ns(),
                        waiting_[i]->id);
    };
    for (std::size_t i = 0; i < waiting_.size(); ++i) head = key(i) < key(head) ? i : head;
    return head;
  }
  std::int64_t Long(std::int64_t tokens) const {
    return config_.threshold > 0 ? std::min(tokens, config_.threshold) : tokens;
  }

  Step Schedule() {
    Step step;
    std::int64_t budget = config_.budget;
    preempted_ = false;
    ScheduleRunning(&step, &budget);
    while (!preempted_ && !waiting_.empty() && budget > 0 &&
           static_cast<std::int64_t>(running_.size()) < config_.max_num_seqs) {
      const std::size_t head = Head();
      Request* const r = waiting_[head];
      const std::int64_t left = r->prompt() + r->made;
      const std::int64_t n = std::min(Long(left), budget);
      const auto watermark = static_cast<std::int64_t>(
          running_.empty() ? 0 : config_.watermark * static_cast<double>(config_.blocks));
      if (config_.full_sequence && Blocks(left) + watermark > free_) break;
      if (!Allocate(r, n, watermark)) break;
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(head));
      running_.push_back(r);
      step.push_back({r, n, 0, false});
      budget -= n;
    }
    for (Scheduled& scheduled : step) {
      Request* const r = scheduled.request;
      r->computed += scheduled.tokens;
      scheduled.samples = r->computed == r->prompt() + r->made + r->placeholders;
      r->placeholders += scheduled.samples;
    }
    last_was_empty_ = step.empty();
    return step;
  }

  void ScheduleRunning(Step* step, std::int64_t* budget) {
    for (std::size_t i = 0; i < running_.size() && *budget > 0; ++i) {
      Request* const r = running_[i];
      if (r->placeholders > 0 &&
          r->computed + 2 - r->placeholders >= r->prompt() + r->max_tokens()) {
        continue;
      }
      const std::int64_t n =
          std::min(Long(r->prompt() + r->made + r->placeholders - r->computed), *budget);
      if (n == 0) continue;
      while (!Allocate(r, r->computed + n)) {
        const std::size_t victim = Victim();
        Request* const v = running_[victim];
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(victim));
        const auto at = std::find_if(step->begin(), step->end(), [&](const Scheduled& scheduled) {
          return scheduled.request == v;
        });
        if (at != step->end()) {
          *budget += at->tokens;
          step->erase(at);
        }
        Free(v);
        v->computed = 0;
        waiting_.push_front(v);
        preempted_ = true;
        if (v == r) return;
        if (victim < i) --i;
      }
      step->push_back({r, n, r->computed, false});
      *budget -= n;
    }
  }

  /// The oldest step runs, and its result is seen.
  void FinishStep() {
    const Step step = std::move(in_flight_.front());
    in_flight_.pop_front();
    std::vector<std::string> line;
    std::int64_t wasted = 0, tokens = 0;
    for (const Scheduled& scheduled : step) {
      const Request& r = *scheduled.request;
      tokens += scheduled.tokens;
      if (r.finished()) {
        wasted += scheduled.tokens;
        continue;
      }
      const bool decode =
          scheduled.tokens == 1 && scheduled.samples && scheduled.context >= r.prompt();
      line.push_back(decode ? "D" + std::to_string(r.id)
                            : "P" + std::to_string(r.id) + ":" + std::to_string(scheduled.tokens));
    }
    if (line.empty()) return;  // nothing but waste: vllm_v1 does not run it
    if (wasted > 0) line.push_back("pad:" + std::to_string(wasted));
    line.push_back(std::to_string(now_) + "-" + std::to_string(now_ + tokens));
    std::sort(line.begin(), line.end());
    lines_.push_back(std::move(line));
    now_ += tokens;
    for (const Scheduled& scheduled : step) {
      Request* const r = scheduled.request;
      if (!scheduled.samples || r->finished()) continue;
      ++r->made;
      --r->placeholders;
      if (!r->finished()) continue;
      Free(r);
      std::erase(running_, r);
      std::erase(waiting_, r);
    }
  }

  Config config_;
  std::vector<Request> requests_;
  std::size_t arrived_ = 0;
  std::int64_t free_;
  std::int64_t now_ = 0;
  std::vector<Request*> running_;
  std::deque<Request*> waiting_;
  std::deque<Step> in_flight_;
  bool last_was_empty_ = false;
  bool preempted_ = false;
  std::vector<std::vector<std::string>> lines_;
};

std::vector<std::vector<std::string>> Lines(const Played& played) {
  std::vector<std::vector<std::string>> lines;
  for (const std::string& step : played.steps) {
    std::istringstream words(step);
    std::vector<std::string>& line = lines.emplace_back();
    for (std::string word; words >> word;) line.push_back(word);
    std::sort(line.begin(), line.end());
  }
  return lines;
}

Config DrawConfig(Rng* rng, bool async) {
  Config config;
  config.budget = 4 + rng->Below(24);
  config.blocks = 8 + rng->Below(16);
  config.max_num_seqs = 1 + rng->Below(8);
  config.threshold = rng->Below(2) == 0 ? 0 : 1 + rng->Below(9);
  config.by_priority = rng->Below(2) == 0;
  config.full_sequence = rng->Below(2) == 0;
  config.async = async;
  config.watermark = rng->Below(2) == 0 ? 0 : 0.5;
  return config;
}

/// Of 32 tokens at most, which the smallest pool holds: everybody can finish.
std::vector<RequestSpec> DrawRequests(Rng* rng) {
  std::vector<RequestSpec> specs;
  std::int64_t at = 0;
  const std::uint32_t count = 2 + rng->Below(12), gap = 1 + rng->Below(40);
  for (std::uint32_t i = 0; i < count; ++i) {
    at += rng->Below(3) == 0 ? 0 : rng->Below(gap);
    RequestSpec spec = policy_testing::Tokens(at, 1 + rng->Below(18), 1 + rng->Below(14));
    const std::uint32_t kind = rng->Below(3);
    if (kind == 0) spec.max_new_tokens = spec.output_tokens;
    if (kind == 1) spec.max_new_tokens = spec.output_tokens + rng->Below(3);
    spec.priority = static_cast<std::int32_t>(rng->Below(3));
    specs.push_back(spec);
  }
  return specs;
}

Script ScriptOf(const Config& config, const Form& form, std::vector<RequestSpec> specs) {
  Script script{
      .policy = "vllm_v1",
      .settings = In(form, {{"max_num_batched_tokens", std::to_string(config.budget)},
                            {"max_num_seqs", std::to_string(config.max_num_seqs)},
                            {"long_prefill_token_threshold", std::to_string(config.threshold)},
                            {"scheduling_policy", config.by_priority ? "priority" : "fcfs"},
                            {"full_sequence_must_fit", config.full_sequence ? "true" : "false"},
                            {"async_scheduling", config.async ? "true" : "false"},
                            {"watermark", config.watermark > 0 ? "0.5" : "0"}}),
      .requests = std::move(specs)};
  script.device.total_blocks = static_cast<std::uint32_t>(config.blocks);
  script.device.block_tokens = kBlockTokens;
  script.device.queue_depth = config.async ? 2 : 1;
  return script;
}

class VllmV1Reference : public testing::TestWithParam<bool> {};

TEST_P(VllmV1Reference, EveryStepIsTheSame) {
  std::uint64_t preemptions = 0, wasted = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed, "vllm_v1 reference");
    const Config config = DrawConfig(&rng, GetParam());
    const std::vector<RequestSpec> specs = DrawRequests(&rng);
    const Form form = kForms[rng.Below(4)];
    const auto expected = Reference(config, specs).Run();
    const Played played = Play(ScriptOf(config, form, specs));
    ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
    ASSERT_EQ(Lines(played), expected) << form.Name();
    preemptions += played.summary.preemptions;
    for (const std::string& step : played.steps) wasted += step.find("pad:") != std::string::npos;
  }
  EXPECT_GT(preemptions, kSeeds / 2);
  EXPECT_EQ(wasted > kSeeds / 2, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Engines, VllmV1Reference, testing::Bool(), [](const auto& engine) {
  return std::string(engine.param ? "Async" : "Sync");
});

}  // namespace
}  // namespace schedtwin
