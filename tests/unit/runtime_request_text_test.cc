// RequestText: equal text has equal hashes however it is cut, other text has others, and what has
// no name is the request's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "policies/runtime/request_text.h"

namespace schedtwin {
namespace {

using ::testing::ElementsAre;

using Stretches = std::vector<ContentSegment>;

struct Asked {
  std::uint32_t request = 0;
  std::uint32_t prompt_tokens = 0;  ///< 0: as long as the stretches
  std::uint32_t tokens = 0;         ///< known; 0: the prompt
  std::uint64_t output_content = 0;
  std::uint32_t tenant = 0;
  std::uint32_t adapter = 0;
  ModelId model = {0};
  bool isolate = false;
};

std::vector<std::uint64_t> HashesOf(const Stretches& stretches, const Asked& asked = {}) {
  RequestSpec spec;
  spec.content = stretches;
  spec.prompt_tokens = asked.prompt_tokens;
  if (spec.prompt_tokens == 0) {
    for (const ContentSegment& stretch : stretches) spec.prompt_tokens += stretch.tokens;
  }
  spec.output_content = asked.output_content;
  spec.tenant = asked.tenant;
  spec.adapter = asked.adapter;
  RequestText text;
  text.Reset(asked.request, spec, asked.isolate);
  const auto hashes =
      text.Hashes(asked.tokens == 0 ? spec.prompt_tokens : asked.tokens, 4, asked.model);
  return {hashes.begin(), hashes.end()};
}

TEST(RequestText, OnlyFullBlocksHaveNames) {
  EXPECT_EQ(HashesOf({{1, 3}}).size(), 0u);
  EXPECT_EQ(HashesOf({{1, 4}}).size(), 1u);
  EXPECT_EQ(HashesOf({{1, 11}}).size(), 2u);
}

TEST(RequestText, AStretchMayStopShortOfItsEnd) {
  const auto whole = HashesOf({{1, 12}});
  EXPECT_EQ(HashesOf({{1, 9}, {2, 3}})[1], whole[1]);
  EXPECT_NE(HashesOf({{1, 9}, {2, 3}})[2], whole[2]);
}

TEST(RequestText, EachStretchBeginsAtTheBeginningOfItsText) {
  EXPECT_NE(HashesOf({{1, 4}, {1, 4}}), HashesOf({{1, 8}}));
  EXPECT_EQ(HashesOf({{1, 4}, {1, 4}})[0], HashesOf({{1, 8}})[0]);
  EXPECT_EQ(HashesOf({{1, 4}, {2, 0}, {1, 4}}), HashesOf({{1, 4}, {1, 4}})) << "of no length";
}

TEST(RequestText, WhatComesBeforeCounts) {
  EXPECT_NE(HashesOf({{1, 4}, {3, 4}})[1], HashesOf({{2, 4}, {3, 4}})[1]);
}

TEST(RequestText, WhatHasNoNameIsTheRequestsOwn) {
  EXPECT_EQ(HashesOf({}, {.request = 5, .prompt_tokens = 8}),
            HashesOf({}, {.request = 5, .prompt_tokens = 8}));
  EXPECT_NE(HashesOf({}, {.request = 5, .prompt_tokens = 8}),
            HashesOf({}, {.request = 6, .prompt_tokens = 8}));
  EXPECT_NE(HashesOf({{5, 8}}), HashesOf({}, {.request = 5, .prompt_tokens = 8}))
      << "nor is it the text that has its number for a name";
  const auto partly = HashesOf({{1, 6}}, {.request = 5, .prompt_tokens = 12});
  EXPECT_EQ(partly.size(), 3u);
  EXPECT_EQ(partly[0], HashesOf({{1, 6}})[0]);
  EXPECT_NE(partly[1], HashesOf({{1, 6}}, {.request = 6, .prompt_tokens = 12})[1]);
  EXPECT_EQ(partly, HashesOf({{1, 6}, {0, 6}}, {.request = 5}));
}

TEST(RequestText, StretchesBeyondThePromptAreCut) {
  EXPECT_EQ(HashesOf({{1, 6}, {2, 100}}, {.prompt_tokens = 8}), HashesOf({{1, 6}, {2, 2}}));
}

TEST(RequestText, AnOutputIsTextOfLaterPromptsIfItHasAName) {
  const auto first = HashesOf({{1, 6}}, {.tokens = 16, .output_content = 9});
  EXPECT_EQ(first, HashesOf({{1, 6}, {9, 10}}));
  EXPECT_EQ(HashesOf({{1, 6}}, {.tokens = 16}).size(), 1u) << "only the prompt's";
}

TEST(RequestText, ExtrasKeepTextsApart) {
  const Stretches text = {{1, 8}};
  const auto plain = HashesOf(text);
  EXPECT_EQ(HashesOf(text, {.tenant = 3}), plain);
  EXPECT_NE(HashesOf(text, {.adapter = 3}), plain);
  EXPECT_NE(HashesOf(text, {.model = {1}}), plain);
  EXPECT_NE(HashesOf(text, {.isolate = true}), HashesOf(text, {.tenant = 1, .isolate = true}));
}

TEST(RequestText, ChainsGrowAndAreUsedAgain) {
  RequestSpec spec;
  const Stretches stretches = {{1, 40}};
  spec.content = stretches;
  spec.prompt_tokens = 40;
  RequestText text;
  text.Reset(1, spec, false);
  const auto few = text.Hashes(9, 4, {0});
  const std::vector<std::uint64_t> first(few.begin(), few.end());
  text.Hashes(40, 8, {0});
  text.Hashes(40, 4, {2});
  const auto more = text.Hashes(40, 4, {0});
  const std::vector<std::uint64_t> all(more.begin(), more.end());
  EXPECT_EQ(all, HashesOf(stretches));
  EXPECT_THAT(first, ElementsAre(all[0], all[1]));
  text.Reset(2, spec, true);
  const auto apart = text.Hashes(40, 4, {0});
  EXPECT_NE(std::vector<std::uint64_t>(apart.begin(), apart.end()), all);
}

TEST(RequestText, EachDeviceIsToldOnce) {
  RequestText text;
  text.Reset(1, {}, false);
  EXPECT_TRUE(text.FirstTold(0));
  EXPECT_TRUE(text.FirstTold(3));
  EXPECT_FALSE(text.FirstTold(0));
  text.Reset(2, {}, false);
  EXPECT_TRUE(text.FirstTold(0));
}

}  // namespace
}  // namespace schedtwin
