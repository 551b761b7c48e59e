// ProfileText: what is written is read back equal, to the last bit.
#include "policies/profile/profile_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

#include "policies/profile/profile.h"

namespace schedtwin {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// `profile` from its own text, which must be equal but for the hash.
void ExpectRoundTrip(Profile profile) {
  ASSERT_TRUE(ValidateProfile(profile).ok()) << ValidateProfile(profile);
  const std::string text = ProfileText(profile, "made by a test");
  const absl::StatusOr<Profile> read = ParseProfile(text, "text");
  ASSERT_TRUE(read.ok()) << read.status() << "\n" << text;
  EXPECT_NE(read->hash, 0u);
  profile.hash = read->hash;
  EXPECT_TRUE(*read == profile) << text;
  EXPECT_EQ(ProfileText(*read, "made by a test"), text);
}

Profile FullDecoder() {
  Profile p;
  p.name = "a \"name\"\\ with\ttwo lines\nand d\xc3\xa9j\xc3\xa0 vu";
  p.summary = "# no comment";
  p.model = "m";
  p.device = "d";
  p.precision = "f32";
  p.max_model_len_tokens = std::numeric_limits<std::uint32_t>::max();
  p.max_sequences = 7;
  p.kv_blocks = 10;
  p.block_tokens = 16;
  p.block_bytes = 65'536;
  p.host_blocks = 5;
  p.weights_bytes = std::numeric_limits<std::uint64_t>::max();
  p.host_link = {10, 25'000'000'000};
  p.peer_link = {0, 1};
  p.load_link = {1'000'000'000'000'000, 7};
  p.host_overhead_ns = 1.0 / 3;
  p.layers = 2;
  p.tile = 8;
  p.steps = {{8, 0.1}, {16, 1e15}, {24, 123'456'789.123'456'78}};
  p.head = {{8, 5e-324}, {4096, 3.0000000000000004}};
  p.decode_base_ns = 1e-300;
  p.decode_ns_per_context_token = 0.1 + 0.2;
  p.decode_ns_per_sequence = 12.5;
  p.prefill.context_tokens = {0, 64};
  p.prefill.chunk_tokens = {1, 64, 65};
  p.prefill.layer_ns = {4, 40.000000000000007, 41, 6, 80, 1e14 / 3};
  p.prefill.launch_ns = 3.9999999999999996;
  p.fit = {{"part", "how; \xe2\x89\xa4 5%", std::numeric_limits<std::uint64_t>::max(), 1.0 / 7, 2,
            1e300, -0.7}};
  p.sources = {{"what", "file", "commit", "licence"}, {"only this", "", "", ""}};
  p.gaps = {"one", "", "three"};
  return p;
}

TEST(ProfileText, FullDecoder) { ExpectRoundTrip(FullDecoder()); }

TEST(ProfileText, WhatIsMissingStaysMissing) {
  Profile p;
  p.name = p.model = "m";
  p.kv_blocks = p.block_tokens = p.layers = 1;
  p.steps = {{1, 1}};
  ExpectRoundTrip(p);
  p.prefill.launch_ns = 2;  // a table without a grid
  ExpectRoundTrip(p);
}

TEST(ProfileText, OneShot) {
  Profile p;
  p.name = p.model = "m";
  p.kind = ModelKind::kOneShot;
  p.max_units = 48;
  p.tile = 4;
  p.floor_ns = 2.0 / 3;
  p.steps = {{4, 1}, {8, 1.0000000000000002}};
  ExpectRoundTrip(p);
  p.floor_ns = 0;
  ExpectRoundTrip(p);
}

TEST(ProfileText, ShippedProfiles) {
  for (const std::string_view name : ShippedProfiles()) {
    const absl::StatusOr<Profile> profile = LoadProfile(name);
    ASSERT_TRUE(profile.ok()) << profile.status();
    ExpectRoundTrip(*profile);
  }
}

TEST(ProfileText, CommentLeads) {
  const std::string text = ProfileText(FullDecoder(), "one\n\nthree: {");
  EXPECT_THAT(text, StartsWith("# one\n#\n# three: {\nname: "));
  EXPECT_TRUE(ParseProfile(text, "text").ok());
  EXPECT_THAT(ProfileText(FullDecoder()), StartsWith("name: "));
  EXPECT_THAT(text, HasSubstr("  point { rows: 4096 step_ns: 3.0000000000000004 }\n"));
}

}  // namespace
}  // namespace schedtwin
