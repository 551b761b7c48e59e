// World, the prefix cache as a policy drives it: what it reads, adopts, pins and evicts, what it is
// told, and what a transaction puts back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "policies/runtime/journal.h"
#include "policies/runtime/world.h"
#include "tests/support/one_device.h"
#include "tests/support/scripted_policy.h"
#include "tests/support/test_run.h"
#include "tests/support/texts.h"

namespace schedtwin {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

// Contents.
constexpr std::uint64_t kSystem = 1, kUser = 2, kAnswer = 3;

/// Request 0 is prefilled and finishes at 10 ns; then, at 50 ns, `ask` is called; at the end
/// everybody who lives is given up. Blocks hold 4 tokens.
struct CacheRun {
  TestRun run;
  ScriptedPolicy policy;
  Texts texts;

  explicit CacheRun(std::function<void(Context&)> ask) {
    run.options.prefix_cache = true;
    policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(50), 1); };
    policy.on_arrival = [](Context& context, RequestId request) {
      if (request.value == 0) LaunchOne(context, request);
    };
    policy.on_timer = [ask = std::move(ask)](Context& context, std::uint64_t tag) {
      if (tag == 1) {
        ask(context);
        context.clock().Arm(Time::Nanos(200), 2);
        return;
      }
      for (std::uint32_t id = 0; id < 10; ++id) {
        if (context.live({id})) context.actions().Finish({id}, EndReason::kTimedOut);
      }
    };
  }

  /// Request 0 has 16 tokens of the system's text; requests 1 and 2 begin with it, request 3 with
  /// another one.
  RunSummary Run() {
    return run.Run(&policy,
                   {texts.Request(0, {{kSystem, 16}}, 1),
                    texts.Request(40, {{kSystem, 16}, {kUser, 5}}, 3, kAnswer),
                    texts.Request(40, {{kSystem, 10}}, 3), texts.Request(40, {{kUser, 12}}, 3)});
  }
};

constexpr RequestId kLong = {1}, kShort = {2}, kStranger = {3};

/// All that a policy can read of memory and cache, as one text.
std::string Readable(Context& context) {
  const DeviceView& device = context.device(kDevice);
  std::string text = std::to_string(device.free_blocks) + " free " +
                     std::to_string(device.cached_blocks) + " cached " +
                     std::to_string(device.fenced_blocks) + " fenced";
  for (std::uint32_t id = 0; id < 4; ++id) {
    if (!context.live({id})) continue;
    const RequestView view = context.request({id});
    text += " | " + std::to_string(id) + ": " + std::to_string(view.owned_blocks()) + " " +
            std::to_string(view.scheduled_tokens()) + " " + std::to_string(view.cached_tokens()) +
            " " + std::to_string(view.device().value) + " hit " +
            std::to_string(context.cache(kDevice).HitTokens({id})) + " " +
            std::to_string(context.cache(kDevice).HitFreeBlocks({id}));
  }
  return text;
}

TEST(WorldCache, TellsWhatIsThereAndHandsItOver) {
  CacheRun world([](Context& context) {
    Cache& cache = context.cache(kDevice);
    EXPECT_EQ(context.device(kDevice).free_blocks, 100u);
    EXPECT_EQ(context.device(kDevice).cached_blocks, 4u);
    EXPECT_EQ(cache.HitTokens(kLong), 16u);
    EXPECT_EQ(cache.HitFreeBlocks(kLong), 4u);
    EXPECT_EQ(cache.HitTokens(kShort), 8u);
    EXPECT_EQ(cache.HitTokens(kStranger), 0u);
    EXPECT_EQ(cache.HitTokens({99}), 0u);

    EXPECT_EQ(cache.Adopt(kLong, 13), 12u) << "full blocks only";
    EXPECT_EQ(context.request(kLong).owned_blocks(), 3u);
    EXPECT_EQ(context.request(kLong).scheduled_tokens(), 12u);
    EXPECT_EQ(context.request(kLong).device(), kDevice);
    EXPECT_EQ(context.device(kDevice).free_blocks, 97u);
    EXPECT_EQ(context.device(kDevice).cached_blocks, 1u);
    EXPECT_EQ(cache.Adopt(kLong, 100), 0u) << "it owns blocks";

    EXPECT_EQ(cache.HitFreeBlocks(kShort), 0u);
    EXPECT_EQ(cache.Adopt(kShort, 100), 8u) << "shared";
    EXPECT_EQ(context.device(kDevice).free_blocks, 97u);
    EXPECT_TRUE(context.memory(kDevice).Release(kLong));
    EXPECT_EQ(context.device(kDevice).free_blocks, 98u);
    EXPECT_EQ(context.device(kDevice).cached_blocks, 2u);
    EXPECT_EQ(cache.Adopt(kStranger, 100), 0u);
    EXPECT_FALSE(context.request(kStranger).device().valid()) << "nothing has changed";
    EXPECT_EQ(cache.Adopt({99}, 100), 0u);
  });
  world.Run();
  EXPECT_EQ(world.run.recorder.Find(2)->cached_tokens, 8u);
}

TEST(WorldCache, TellsTheNamesOfAPromptsBlocks) {
  CacheRun world([](Context& context) {
    const auto names = [&](RequestId request) {
      const auto blocks = context.cache(kDevice).PromptBlocks(request);
      return std::vector<std::uint64_t>(blocks.begin(), blocks.end());
    };
    const std::vector<std::uint64_t> longest = names(kLong);
    EXPECT_EQ(longest.size(), 5u) << "21 tokens";
    EXPECT_EQ(names(kShort), std::vector(longest.begin(), longest.begin() + 2));
    EXPECT_EQ(names(kStranger).size(), 3u);
    EXPECT_THAT(longest, Not(Contains(names(kStranger)[0])));
    EXPECT_TRUE(names({99}).empty());
  });
  world.Run();
}

TEST(WorldCache, WithoutOneNothingIsFound) {
  CacheRun world([](Context& context) {
    EXPECT_EQ(context.cache(kDevice).HitTokens(kLong), 0u);
    EXPECT_EQ(context.cache(kDevice).HitFreeBlocks(kLong), 0u);
    EXPECT_TRUE(context.cache(kDevice).PromptBlocks(kLong).empty());
    EXPECT_EQ(context.cache(kDevice).Adopt(kLong, 16), 0u);
    context.actions().Route(kLong, kDevice);
    EXPECT_EQ(context.actions().Pin(kLong, true), Refusal::kUnsupported);
    EXPECT_EQ(context.actions().Evict(kDevice, 1), Refusal::kUnsupported);
  });
  world.run.options.prefix_cache = false;
  world.Run();
  for (const std::string& line : world.policy.seen) {
    EXPECT_EQ(line.find("cache"), std::string::npos) << line;
  }
}

TEST(WorldCache, ARequestServedFromItRunsOn) {
  // FakeDevice complains if a block holds another text than the request's.
  CacheRun world([](Context& context) {
    EXPECT_EQ(context.cache(kDevice).Adopt(kLong, 100), 16u);
    LaunchOne(context, kLong);
  });
  world.policy.on_slot_free = [](Context& context, DeviceId) {
    if (context.live(kLong)) LaunchOne(context, kLong);
  };
  world.Run();
  ASSERT_EQ(world.run.fakes[0].steps.size(), 4u);
  EXPECT_EQ(world.run.fakes[0].steps[1].entries[0].tokens, 5u);
  EXPECT_EQ(world.run.fakes[0].steps[1].entries[0].context_tokens, 16u);
  const RequestRecord& record = *world.run.recorder.Find(1);
  EXPECT_EQ(record.reason, EndReason::kCompleted);
  EXPECT_EQ(record.cached_tokens, 16u);
}

// ---- Transactions ----

TEST(WorldCache, RollbackRestoresWhatWasAdoptedAndEvicted) {
  CacheRun world([](Context& context) {
    Memory& memory = context.memory(kDevice);
    Cache& cache = context.cache(kDevice);
    const std::string before = Readable(context);
    const MemoryMark outer = memory.Begin();
    EXPECT_EQ(cache.Adopt(kShort, 100), 8u);
    EXPECT_TRUE(memory.Reserve(kStranger, 97 * 4)) << "two blocks of the system's text go";
    const std::string middle = Readable(context);
    EXPECT_EQ(cache.HitTokens(kLong), 12u);
    const MemoryMark inner = memory.Begin();
    EXPECT_TRUE(memory.Release(kStranger));
    EXPECT_TRUE(memory.Release(kShort));
    EXPECT_TRUE(memory.Reserve(kStranger, 100 * 4));
    EXPECT_EQ(cache.HitTokens(kLong), 0u);
    memory.Rollback(inner);
    EXPECT_EQ(Readable(context), middle);
    memory.Rollback(outer);
    EXPECT_EQ(Readable(context), before);
  });
  world.Run();
  EXPECT_THAT(world.policy.seen, Contains("10 cache 0 +4 -0"));
  for (const std::string& line : world.policy.seen) {
    EXPECT_EQ(line.find("50 cache"), std::string::npos) << "nothing has changed in the end";
  }
}

TEST(WorldCache, NothingIsPinnedOrEvictedInsideATransaction) {
  CacheRun world([](Context& context) {
    context.actions().Route(kLong, kDevice);
    const std::string before = Readable(context);
    const MemoryMark mark = context.memory(kDevice).Begin();
    EXPECT_EQ(context.actions().Pin(kLong, true), Refusal::kBadArgument);
    EXPECT_EQ(context.actions().Evict(kDevice, 1), Refusal::kBadArgument);
    EXPECT_EQ(Readable(context), before);
    context.memory(kDevice).Commit(mark);
  });
  world.Run();
}

// ---- Pin and evict ----

TEST(WorldCache, EvictTakesTheOldestAndAllOrNone) {
  CacheRun world([](Context& context) {
    EXPECT_EQ(context.actions().Evict(kDevice, 5), Refusal::kBadArgument);
    EXPECT_EQ(context.actions().Evict(kDevice, 0), Refusal::kBadArgument);
    EXPECT_EQ(context.actions().Evict({7}, 1), Refusal::kUnknownDevice);
    EXPECT_EQ(context.device(kDevice).cached_blocks, 4u);
    EXPECT_EQ(context.actions().Evict(kDevice, 1), Refusal::kNone);
    EXPECT_EQ(context.device(kDevice).cached_blocks, 3u);
    EXPECT_EQ(context.device(kDevice).free_blocks, 100u) << "it is free all the same";
    EXPECT_EQ(context.cache(kDevice).HitTokens(kLong), 12u) << "the tail went first";
  });
  world.Run();
  EXPECT_THAT(world.policy.seen, Contains("50 cache 0 +0 -1"));
}

TEST(WorldCache, PinnedBlocksOutliveEverythingUntilTheyAreUnpinned) {
  CacheRun world([](Context& context) {
    Memory& memory = context.memory(kDevice);
    Cache& cache = context.cache(kDevice);
    Actions& actions = context.actions();
    EXPECT_EQ(actions.Pin(kShort, true), Refusal::kWrongDevice);
    EXPECT_EQ(actions.Pin({99}, true), Refusal::kUnknownRequest);
    for (const RequestId request : {kLong, kShort, kStranger}) actions.Route(request, kDevice);
    EXPECT_EQ(actions.Pin(kStranger, true), Refusal::kBadArgument) << "nothing is cached of it";
    EXPECT_EQ(actions.Pin(kShort, false), Refusal::kBadArgument) << "nor is anything pinned";
    EXPECT_EQ(actions.Pin(kShort, true), Refusal::kNone);  // the first two blocks
    EXPECT_EQ(context.device(kDevice).free_blocks, 98u);
    EXPECT_EQ(context.device(kDevice).cached_blocks, 2u);
    EXPECT_EQ(cache.HitFreeBlocks(kLong), 2u);
    EXPECT_EQ(actions.Pin(kLong, true), Refusal::kNone);  // all four
    EXPECT_EQ(context.device(kDevice).free_blocks, 96u);
    EXPECT_FALSE(memory.Reserve(kStranger, 97 * 4));
    EXPECT_TRUE(memory.Reserve(kStranger, 96 * 4));
    EXPECT_EQ(cache.HitTokens(kLong), 16u);
    EXPECT_TRUE(memory.Release(kStranger));

    // The longest pinning that the text begins with, whoever made it.
    EXPECT_EQ(actions.Finish(kShort, EndReason::kTimedOut), Refusal::kNone);
    EXPECT_EQ(context.device(kDevice).free_blocks, 96u) << "its pin has outlived it";
    EXPECT_EQ(actions.Pin(kLong, false), Refusal::kNone);
    EXPECT_EQ(context.device(kDevice).free_blocks, 98u);
    EXPECT_EQ(actions.Pin(kLong, false), Refusal::kNone);
    EXPECT_EQ(context.device(kDevice).free_blocks, 100u);
    EXPECT_EQ(context.device(kDevice).cached_blocks, 4u);
    EXPECT_EQ(actions.Pin(kLong, false), Refusal::kBadArgument);
  });
  world.Run();
}

TEST(WorldCache, PinnedBlocksInUseAreKeptWhenTheyAreGivenBack) {
  CacheRun world([](Context& context) {
    EXPECT_EQ(context.cache(kDevice).Adopt(kLong, 16), 16u);
    EXPECT_EQ(context.actions().Pin(kLong, true), Refusal::kNone);
    EXPECT_EQ(context.device(kDevice).free_blocks, 96u);
    EXPECT_TRUE(context.memory(kDevice).Release(kLong));
    EXPECT_EQ(context.device(kDevice).free_blocks, 96u);
    EXPECT_EQ(context.actions().Pin(kLong, false), Refusal::kNone);
    EXPECT_EQ(context.device(kDevice).free_blocks, 100u);
  });
  world.Run();
}

// ---- The fence ----

TEST(WorldCache, WhatIsFencedIsSharedButNotHandedOut) {
  // Request 0 runs its second step from 10 to 20 and is given up at 15.
  TestRun run;
  run.options.prefix_cache = true;
  run.device.total_blocks = 5;
  ScriptedPolicy policy;
  Texts texts;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value == 0) LaunchOne(context, request);
    if (request.value != 2) return;
    EXPECT_EQ(context.actions().Finish({0}, EndReason::kTimedOut), Refusal::kNone);
    EXPECT_EQ(context.device(kDevice).fenced_blocks, 3u);
    EXPECT_EQ(context.device(kDevice).free_blocks, 2u);
    EXPECT_FALSE(context.memory(kDevice).Reserve({1}, 12));
    EXPECT_EQ(context.cache(kDevice).HitTokens({2}), 8u);
    EXPECT_EQ(context.cache(kDevice).HitFreeBlocks({2}), 0u) << "they are not free yet";
    EXPECT_EQ(context.cache(kDevice).Adopt({2}, 100), 8u);
    EXPECT_EQ(context.device(kDevice).fenced_blocks, 1u);
    EXPECT_EQ(context.device(kDevice).free_blocks, 2u);
  };
  policy.on_slot_free = [](Context& context, DeviceId) {
    if (context.now() == Time::Nanos(10)) return static_cast<void>(LaunchOne(context, {0}));
    EXPECT_EQ(context.device(kDevice).fenced_blocks, 0u);
    EXPECT_EQ(context.device(kDevice).free_blocks, 3u);
    for (const std::uint32_t id : {1, 2}) context.actions().Finish({id}, EndReason::kTimedOut);
  };
  run.Run(&policy, {texts.Request(0, {{kSystem, 9}}, 4), TokenRequest(12, 12, 1),
                    texts.Request(15, {{kSystem, 10}}, 1)});
  EXPECT_EQ(run.recorder.requests.size(), 3u);
}

TEST(WorldCache, ATokenInFlightIsNotSharedYet) {
  // Prompt of 4 and a named output: 8 tokens have their KV when the step in flight ends, 7 when
  // request 0 is preempted in the middle of it.
  for (const std::int64_t at : {45, 55}) {
    for (const bool standing : {false, true}) {
      TestRun run;
      run.options.prefix_cache = true;
      ScriptedPolicy policy;
      Texts texts;
      policy.on_arrival = [](Context& context, RequestId request) {
        if (request.value == 0) return static_cast<void>(LaunchOne(context, request));
        EXPECT_EQ(context.actions().Preempt({0}, PreemptMode::kRecompute), Refusal::kNone);
        EXPECT_EQ(context.cache(kDevice).HitTokens({1}),
                  context.now() == Time::Nanos(45) ? 4u : 8u);
        context.actions().Finish({0}, EndReason::kTimedOut);
        context.actions().Finish({1}, EndReason::kTimedOut);
      };
      policy.on_slot_free = [standing](Context& context, DeviceId) {
        if (!context.live({0})) return;
        if (!standing) return static_cast<void>(LaunchOne(context, {0}));
        if (context.device(kDevice).standing == 0) context.actions().Join(kDevice, {0});
        context.actions().Launch({.device = kDevice, .standing = true});
      };
      run.Run(&policy, {texts.Request(0, {{kSystem, 4}}, 9, kAnswer),
                        texts.Request(at, {{kSystem, 4}, {kAnswer, 8}}, 1)});
      EXPECT_EQ(run.recorder.requests.size(), 2u);
    }
  }
}

// A token of a step in flight is kept when its request is preempted, its KV is not.
TEST(WorldCache, ATokenThatCameLateHasNoKvYet) {
  TestRun run;
  run.options.prefix_cache = true;
  run.device.block_tokens = 1;
  ScriptedPolicy policy;
  policy.on_start = [](Context& context) {
    for (const std::int64_t at : {5, 15}) context.clock().Arm(Time::Nanos(at), 1);
  };
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, request); };
  policy.on_slot_free = [](Context& context, DeviceId) {
    if (context.live({0})) LaunchOne(context, {0});
  };
  policy.on_timer = [](Context& context, std::uint64_t) {
    EXPECT_EQ(context.actions().Preempt({0}, PreemptMode::kRecompute), Refusal::kNone);
    EXPECT_EQ(context.cache(kDevice).HitTokens({0}), 0u);
  };
  run.Run(&policy, {TokenRequest(0, 1, 4)});
  EXPECT_EQ(run.recorder.Find(0)->output_tokens, 4u);
}

// ---- What it tells ----

TEST(WorldCache, ChangesAreToldOnceAnInstantInTheirPlace) {
  TestRun run;
  run.options.prefix_cache = true;
  run.device.total_blocks = 4;
  ScriptedPolicy policy;
  Texts texts;
  policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(20), 1); };
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value != 1) LaunchOne(context, request);
  };
  policy.on_slot_free = [](Context& context, DeviceId) {
    if (context.live({1}) && context.request({1}).device().value != 0) LaunchOne(context, {1});
  };
  run.Run(&policy, {texts.Request(0, {{kSystem, 8}}, 1), texts.Request(10, {{kUser, 12}}, 1)});
  // At 10 two blocks are named, and request 1, which takes three of the four, evicts one. That is
  // after the callback that has done it, but before anything that is due later in the order.
  EXPECT_THAT(policy.seen,
              ElementsAre("0 start", "0 arrival 0", "10 done 0 finish 1", "10 cache 0 +2 -0",
                          "10 arrival 1", "10 slot 0", "10 cache 0 +0 -1", "20 done 0 finish 1",
                          "20 cache 0 +3 -0", "20 timer 1", "20 slot 0"));
  std::vector<std::uint64_t> words;
  for (const LogRecord& line : run.recorder.log) {
    if (line.kind == static_cast<std::uint8_t>(LineKind::kEvent) &&
        line.code == static_cast<std::uint8_t>(EventCode::kCacheChange)) {
      words.push_back(line.c);
    }
  }
  EXPECT_THAT(words, ElementsAre(2, std::uint64_t{1} << 32, 3));
}

// ---- Texts ----

// Says where its text is in a buffer that it uses again for the next request.
class OneBuffer final : public RequestSource {
 public:
  Pull Next(RequestSpec* out) override {
    buffer_[0] = {++count_ == 2 ? kUser : kSystem, 8};
    buffer_[1] = {0, 1};
    if (count_ == 4) return Pull::kDry;
    *out = TokenRequest(20 * static_cast<std::int64_t>(count_), 9, 1);
    out->content = buffer_;
    return Pull::kRequest;
  }

 private:
  ContentSegment buffer_[2];
  std::uint32_t count_ = 0;
};

TEST(WorldCache, TextIsReadBeforeTheSourceIsAskedAgain) {
  TestRun run;
  run.options.prefix_cache = true;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    EXPECT_EQ(context.cache(kDevice).Adopt(request, 100), request.value == 2 ? 8u : 0u);
    LaunchOne(context, request);
  };
  OneBuffer source;
  run.Run(&policy, {&source});
  EXPECT_EQ(run.recorder.requests.size(), 3u);
}

}  // namespace
}  // namespace schedtwin
