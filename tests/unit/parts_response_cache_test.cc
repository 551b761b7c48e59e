// ResponseCache against a list, and its key.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <set>
#include <vector>

#include "policies/api/rng.h"
#include "policies/parts/response_cache.h"
#include "tests/support/fake_context.h"

namespace schedtwin {
namespace {

Time At(std::int64_t ns) { return Time::Nanos(ns); }

TEST(ResponseCache, LeastRecentlyUsedGoes) {
  ResponseCache cache(2, Duration::Infinite());
  cache.Insert(1, At(0));
  cache.Insert(2, At(1));
  EXPECT_TRUE(cache.Lookup(1, At(2)));
  cache.Insert(3, At(3));
  EXPECT_FALSE(cache.Lookup(2, At(4)));
  EXPECT_TRUE(cache.Lookup(1, At(4)));
  EXPECT_TRUE(cache.Lookup(3, At(4)));
  EXPECT_EQ(cache.size(), 2u);
}

TEST(ResponseCache, ResponseGetsTooOldHoweverOftenItIsUsed) {
  ResponseCache cache(2, Duration::Nanos(10));
  cache.Insert(1, At(0));
  EXPECT_TRUE(cache.Lookup(1, At(9)));
  EXPECT_FALSE(cache.Lookup(1, At(10)));
  EXPECT_EQ(cache.size(), 0u);
  cache.Insert(1, At(20));
  cache.Insert(1, At(25));  // made again
  EXPECT_TRUE(cache.Lookup(1, At(34)));
}

TEST(ResponseCache, OfNoCapacityKeepsNothing) {
  ResponseCache cache(0, Duration::Infinite());
  cache.Insert(1, At(0));
  EXPECT_FALSE(cache.Lookup(1, At(0)));
  EXPECT_EQ(cache.size(), 0u);
}

TEST(ResponseCache, IsTheListOfTheMostRecentlyUsed) {
  struct Made {
    std::uint64_t key;
    std::int64_t at;
  };
  constexpr std::int64_t kTimeToLive = 400;
  ResponseCache cache(16, Duration::Nanos(kTimeToLive));
  std::list<Made> naive;  // the most recently used first
  Rng rng(1, "cache");
  int hits = 0;
  for (std::int64_t now = 0; now < 20'000; ++now) {
    const std::uint64_t key = 1 + rng.Below(40);
    auto at = std::find_if(naive.begin(), naive.end(), [&](Made m) { return m.key == key; });
    if (rng.Below(2) == 0) {
      if (at != naive.end()) naive.erase(at);
      naive.push_front({key, now});
      if (naive.size() > 16) naive.pop_back();
      cache.Insert(key, At(now));
    } else {
      if (at != naive.end() && now - at->at >= kTimeToLive) {
        naive.erase(at);
        at = naive.end();
      }
      ASSERT_EQ(cache.Lookup(key, At(now)), at != naive.end()) << now;
      if (at == naive.end()) continue;
      ++hits;
      naive.splice(naive.begin(), naive, at);
    }
    ASSERT_EQ(cache.size(), naive.size());
  }
  EXPECT_GT(hits, 1000);
}

RequestSpec Prompt(std::vector<ContentSegment>* content, std::uint32_t tokens) {
  RequestSpec spec;
  spec.prompt_tokens = tokens;
  spec.content = *content;
  return spec;
}

TEST(ContentOf, IsTheNameOfTheWholePrompt) {
  std::vector<ContentSegment> one = {{1, 10}, {2, 20}}, same = {{1, 10}, {2, 99}, {3, 5}},
                              other = {{2, 10}, {1, 20}}, short_of_it = {{1, 10}, {2, 19}};
  const std::uint64_t name = ContentOf(Prompt(&one, 30));
  EXPECT_NE(name, 0u);
  EXPECT_EQ(ContentOf(Prompt(&same, 30)), name) << "cut to the prompt's length";
  EXPECT_NE(ContentOf(Prompt(&other, 30)), name);
  EXPECT_NE(ContentOf(Prompt(&one, 29)), name);
  EXPECT_EQ(ContentOf(Prompt(&short_of_it, 30)), 0u) << "its last token is nobody else's";
  EXPECT_EQ(ContentOf(RequestSpec{.prompt_tokens = 30}), 0u);
}

TEST(ResponseKey, TellsApartWhatHasAnotherResponse) {
  FakeContext context(1);
  std::set<std::uint64_t> keys;
  for (std::uint32_t i = 1; i < 5; ++i) context.cold[i].content = 77;
  for (std::uint32_t i = 0; i < 6; ++i) context.cold[i].model = {0};
  context.cold[2].model = {1};
  context.cold[3].spec.adapter = 1;
  context.cold[4].max_new_tokens = 1;
  context.cold[5].content = 78;
  for (std::uint32_t i = 0; i < 6; ++i) keys.insert(ResponseKey(context.request({i})));
  EXPECT_EQ(keys.size(), 6u);
  EXPECT_EQ(ResponseKey(context.request({0})), 0u);
  context.cold[4].max_new_tokens = 0;
  EXPECT_EQ(ResponseKey(context.request({4})), ResponseKey(context.request({1})));
}

}  // namespace
}  // namespace schedtwin
