// Profiles as files: what loads, and the one line that a mistake gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "policies/profile/profile.h"

namespace schedtwin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDecoder[] = R"(name: "d"
model: "m"
kind: DECODER
memory { kv_blocks: 10 block_tokens: 16 }
layers: 2
linear { tile_tokens: 8 point { tokens: 8 step_ns: 100 } point { tokens: 16 step_ns: 150 } }
decode_attention { layer_base_ns: 5 layer_ns_per_context_token: 0.5 }
prefill_attention {
  launch_layer_ns: 3
  chunk_tokens: [1, 64]
  row { context_tokens: 0 layer_ns: [4, 40] }
  row { context_tokens: 64 layer_ns: [6, 80] }
}
lm_head { point { rows: 8 step_ns: 30 } point { rows: 32 step_ns: 70 } }
)";

constexpr char kOneShot[] = R"(name: "o"
model: "m"
kind: ONE_SHOT
limits { max_units: 8 }
one_shot { point { units: 1 step_ns: 100 } point { units: 8 step_ns: 800 } }
)";

/// `text` with its first `from` replaced.
std::string With(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Profile> profile = ParseProfile(text, "p.textproto");
  EXPECT_FALSE(profile.ok());
  if (profile.ok()) return "";
  EXPECT_EQ(profile.status().code(), absl::StatusCode::kInvalidArgument);
  std::string message(profile.status().message());
  EXPECT_EQ(message.rfind("p.textproto:", 0), 0u) << message;
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  return message;
}

TEST(ProfileParse, DecoderIsReadInFull) {
  const absl::StatusOr<Profile> profile = ParseProfile(kDecoder, "p.textproto");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->name, "d");
  EXPECT_EQ(profile->kind, ModelKind::kDecoder);
  EXPECT_EQ(ModelKindName(profile->kind), "decoder");
  EXPECT_EQ(profile->kv_blocks, 10u);
  EXPECT_EQ(profile->block_tokens, 16u);
  EXPECT_EQ(profile->layers, 2u);
  EXPECT_EQ(profile->tile, 8u);
  ASSERT_EQ(profile->steps.size(), 2u);
  EXPECT_EQ(profile->steps[1].count, 16u);
  EXPECT_EQ(profile->steps[1].step_ns, 150);
  EXPECT_EQ(profile->decode_base_ns, 5);
  EXPECT_EQ(profile->decode_ns_per_context_token, 0.5);
  EXPECT_EQ(profile->prefill.launch_ns, 3);
  EXPECT_THAT(profile->prefill.context_tokens, ::testing::ElementsAre(0, 64));
  EXPECT_THAT(profile->prefill.chunk_tokens, ::testing::ElementsAre(1, 64));
  EXPECT_THAT(profile->prefill.layer_ns, ::testing::ElementsAre(4, 40, 6, 80));
  EXPECT_THAT(profile->head, ::testing::ElementsAre(StepPoint{8, 30}, StepPoint{32, 70}));
}

TEST(ProfileParse, OneShotIsReadInFull) {
  const absl::StatusOr<Profile> profile = ParseProfile(kOneShot, "p.textproto");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->kind, ModelKind::kOneShot);
  EXPECT_EQ(ModelKindName(profile->kind), "one-shot");
  EXPECT_EQ(profile->max_units, 8u);
  EXPECT_EQ(profile->tile, 1u);
  EXPECT_EQ(profile->steps.size(), 2u);
}

TEST(ProfileParse, HashIsOfTheText) {
  const auto a = ParseProfile(kDecoder, "a");
  const auto b = ParseProfile(kDecoder, "b");
  const auto c = ParseProfile(std::string(kDecoder) + "# more\n", "a");
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(a->hash, b->hash);
  EXPECT_NE(a->hash, c->hash);
}

TEST(ProfileParse, SyntaxErrorHasItsPlace) {
  EXPECT_THAT(ErrorOf("name: \"x\"\nlayers: many\n"), HasSubstr("p.textproto:2:9:"));
}

TEST(ProfileParse, UnknownFieldNamesTheNearest) {
  EXPECT_THAT(ErrorOf(With(kDecoder, "layers: 2", "laiers: 2")),
              AllOf(HasSubstr("p.textproto:5:"), HasSubstr("did you mean 'layers'?")));
  EXPECT_THAT(ErrorOf(With(kDecoder, "tile_tokens", "tile_token")),
              HasSubstr("did you mean 'tile_tokens'?"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "tile_tokens", "zzz")),
              AllOf(HasSubstr("known are tile_tokens, point"), Not(HasSubstr("did you mean"))));
}

TEST(ProfileParse, KindIsRequiredAndKept) {
  EXPECT_THAT(ErrorOf(With(kDecoder, "kind: DECODER", "")), HasSubstr("kind is missing"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "DECODER", "decoder")),
              HasSubstr("kind is DECODER or ONE_SHOT"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "DECODER", "ONE_SHOT")), HasSubstr("kind is ONE_SHOT"));
  EXPECT_THAT(ErrorOf(With(kOneShot, "ONE_SHOT", "DECODER")), HasSubstr("kind is DECODER"));
  EXPECT_THAT(ErrorOf(With(kOneShot, "max_units: 8", "max_sequences: 8")),
              HasSubstr("for decoders only"));
}

TEST(ProfileParse, NamesAreRequired) {
  EXPECT_THAT(ErrorOf(With(kDecoder, "name: \"d\"", "")), HasSubstr("name is missing"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "model: \"m\"", "")), HasSubstr("model is missing"));
}

TEST(ProfileParse, MemoryIsRequired) {
  EXPECT_THAT(ErrorOf(With(kDecoder, "block_tokens: 16", "")), HasSubstr("memory.block_tokens"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "kv_blocks: 10", "")), HasSubstr("memory.kv_blocks"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "layers: 2", "")), HasSubstr("layers is missing"));
}

TEST(ProfileParse, StepTableIsChecked) {
  EXPECT_THAT(ErrorOf(With(kDecoder, "tile_tokens: 8", "tile_tokens: 12")),
              HasSubstr("linear.tile_tokens is 12; it must be a power of two"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "tokens: 16 step_ns: 150", "tokens: 8 step_ns: 150")),
              HasSubstr("they must ascend"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "tokens: 16 step_ns: 150", "tokens: 12 step_ns: 150")),
              HasSubstr("not a multiple of the tile, 8"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "point { tokens: 8 step_ns: 100 }", "")),
              HasSubstr("the first is at 16 tokens; it must be at the tile, 8"));
  for (const char* bad : {"-1", "0", "nan", "inf", "1e300", "1.01e15"}) {
    EXPECT_THAT(ErrorOf(With(kDecoder, "step_ns: 150", std::string("step_ns: ") + bad)),
                HasSubstr("it must be a positive number"));
  }
  EXPECT_THAT(ErrorOf("name: \"o\" model: \"m\" kind: ONE_SHOT"),
              HasSubstr("one_shot.point is missing"));
  EXPECT_THAT(ErrorOf(With(kOneShot, "{ units: 8", "{ units: 4000000000")), HasSubstr("at most"));
  EXPECT_THAT(ErrorOf(With(kOneShot, "one_shot {", "one_shot { floor_ns: -1")),
              HasSubstr("floor_ns is -1; it must be a number from 0 to 1e15"));
}

TEST(ProfileParse, TimesAreBoundedNumbers) {
  for (const char* bad : {"-3", "nan", "inf", "1e300", "1.01e15"}) {
    EXPECT_THAT(
        ErrorOf(std::string(kDecoder) + "host_overhead_ns: " + bad),
        AllOf(HasSubstr("host_overhead_ns is"), HasSubstr("it must be a number from 0 to 1e15")));
    EXPECT_THAT(ErrorOf(With(kDecoder, "layer_base_ns: 5", std::string("layer_base_ns: ") + bad)),
                HasSubstr("it must be a number from 0 to 1e15"));
    EXPECT_THAT(
        ErrorOf(With(kDecoder, "launch_layer_ns: 3", std::string("launch_layer_ns: ") + bad)),
        HasSubstr("it must be a number from 0 to 1e15"));
  }
  EXPECT_THAT(ErrorOf(With(kDecoder, "[6, 80]", "[6, 1e300]")), HasSubstr("at most 1e15"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "layers: 2", "layers: 4000000000")),
              HasSubstr("layers is 4000000000; it must be at most 100000"));
  EXPECT_TRUE(ParseProfile(std::string(kDecoder) + "host_overhead_ns: 1e15", "p").ok());
}

TEST(ProfileParse, ByteOrderMarkIsSkipped) {
  const auto profile = ParseProfile("\xef\xbb\xbf" + std::string(kDecoder), "p.textproto");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->name, "d");
  EXPECT_THAT(ErrorOf("\xef\xbb\xbflayers: many\n"), HasSubstr("p.textproto:1:9:"));
}

TEST(ProfileParse, AttentionIsChecked) {
  EXPECT_THAT(ErrorOf(With(kDecoder, "layer_base_ns: 5", "layer_base_ns: -5")),
              HasSubstr("decode_attention.layer_base_ns"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "token: 0.5", "token: nan")),
              HasSubstr("decode_attention.layer_ns_per_context_token"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "token: 0.5", "token: 0.5 layer_ns_per_sequence: -1")),
              HasSubstr("decode_attention.layer_ns_per_sequence is -1"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "[6, 80]", "[6]")),
              HasSubstr("row at context_tokens 64 has 1 layer_ns; there are 2 chunk_tokens"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "[6, 80]", "[2, 80]")), HasSubstr("launch_layer_ns"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "[1, 64]", "[64, 1]")), HasSubstr("must begin at 1"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "context_tokens: 64", "context_tokens: 0")),
              HasSubstr("they must ascend"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "  row { context_tokens: 64 layer_ns: [6, 80] }\n", "")),
              HasSubstr("needs at least two values"));
}

TEST(ProfileParse, LinksAreChecked) {
  const std::string memory =
      "memory { kv_blocks: 10 block_tokens: 16 block_bytes: 64 host_blocks: 3 }";
  const std::string whole = With(kDecoder, "memory { kv_blocks: 10 block_tokens: 16 }", memory);
  const absl::StatusOr<Profile> profile =
      ParseProfile(whole + "links { host { latency_ns: 5 bytes_per_second: 7 } }", "p.textproto");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->host_link, (ProfileLink{5, 7}));
  EXPECT_EQ(profile->peer_link, ProfileLink{});
  EXPECT_EQ(profile->host_blocks, 3u);
  EXPECT_THAT(ErrorOf(whole), HasSubstr("links.host is missing"));
  EXPECT_THAT(ErrorOf(std::string(kDecoder) + "links { peer { bytes_per_second: 7 } }"),
              HasSubstr("memory.block_bytes is missing"));
  EXPECT_THAT(ErrorOf(std::string(kDecoder) + "links { load { latency_ns: 7 } }"),
              HasSubstr("links.load.bytes_per_second is missing"));
  EXPECT_THAT(ErrorOf(std::string(kDecoder) +
                      "links { load { latency_ns: 1000000000000001 bytes_per_second: 1 } }"),
              HasSubstr("links.load.latency_ns is 1000000000000001"));
  EXPECT_THAT(ErrorOf(std::string(kOneShot) + "links { host { bytes_per_second: 7 } }"),
              HasSubstr("for decoders only"));
}

TEST(ProfileParse, HeadIsChecked) {
  EXPECT_THAT(ErrorOf(With(kDecoder, "rows: 8", "rows: 16")),
              HasSubstr("lm_head.point: the first is at 16 rows; it must be at the tile, 8"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "rows: 32", "rows: 30")),
              HasSubstr("lm_head.point at 30 rows is not a multiple of the tile, 8"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "rows: 32", "rows: 8")),
              HasSubstr("lm_head.point at 8 rows comes after 8; they must ascend"));
  EXPECT_THAT(ErrorOf(With(kDecoder, "rows: 32", "rows: 4000000000")), HasSubstr("at most"));
  for (const char* bad : {"-1", "0", "nan", "1.01e15"}) {
    EXPECT_THAT(ErrorOf(With(kDecoder, "step_ns: 70", std::string("step_ns: ") + bad)),
                HasSubstr("lm_head.point at 32 rows: step_ns is"));
  }
  EXPECT_THAT(ErrorOf(std::string(kOneShot) + "lm_head { point { rows: 1 step_ns: 1 } }"),
              HasSubstr("lm_head are for decoders, but kind is ONE_SHOT"));
  absl::StatusOr<Profile> profile = ParseProfile(kOneShot, "p");
  ASSERT_TRUE(profile.ok());
  profile->head = {{1, 5}};
  EXPECT_THAT(std::string(ValidateProfile(*profile).message()),
              HasSubstr("lm_head is for decoders only"));
  profile = ParseProfile(kDecoder, "p");
  ASSERT_TRUE(profile.ok());
  profile->head.clear();
  EXPECT_TRUE(ValidateProfile(*profile).ok()) << "it may be empty";
}

TEST(ProfileParse, FitAndOverheadAreChecked) {
  EXPECT_THAT(ErrorOf(std::string(kDecoder) + "host_overhead_ns: -3"),
              HasSubstr("host_overhead_ns"));
  EXPECT_THAT(ErrorOf(std::string(kDecoder) + "fit { mape_percent: 2 }"), HasSubstr("fit.part"));
  EXPECT_THAT(ErrorOf(std::string(kDecoder) + "fit { part: \"x\" mape_percent: nan }"),
              HasSubstr("fit of 'x'"));
  EXPECT_THAT(ErrorOf(std::string(kDecoder) + "fit { part: \"x\" bias_percent: inf }"),
              HasSubstr("fit of 'x': bias_percent"));
}

TEST(ProfileLoad, UnknownNameGivesTheNearestAndAll) {
  const absl::StatusOr<Profile> profile = LoadProfile("llama3-8b-a10");
  ASSERT_FALSE(profile.ok());
  EXPECT_EQ(profile.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(profile.status().message()),
              AllOf(HasSubstr("unknown profile 'llama3-8b-a10'"),
                    HasSubstr("did you mean 'llama3-8b-a100'?"), HasSubstr("resnet50-t4")));
}

TEST(ProfileLoad, NoNameIsGuessedFromAfar) {
  const std::string message(LoadProfile("h200").status().message());
  EXPECT_THAT(message, AllOf(HasSubstr("There are: llama3-8b-a100"), Not(HasSubstr("mean"))));
}

TEST(ProfileLoad, UnreadableFileSaysSo) {
  const absl::StatusOr<Profile> missing = LoadProfile("no/such/file.textproto");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("no such file"));
  const absl::StatusOr<Profile> folder = LoadProfile("./");
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("a folder"));
}

TEST(ProfileLoad, FileIsLoadedAndNamedInErrors) {
  const std::string path = ::testing::TempDir() + "profile_load_test.textproto";
  std::ofstream(path) << kDecoder;
  const absl::StatusOr<Profile> good = LoadProfile(path);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->name, "d");
  std::ofstream(path) << "layers: -1";
  const absl::StatusOr<Profile> bad = LoadProfile(path);
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr(path + ":1:9:"));
  std::remove(path.c_str());
}

TEST(ProfileLoad, ShippedTextIsWhatIsParsed) {
  EXPECT_TRUE(ShippedProfileText("none").empty());
  for (const std::string_view name : ShippedProfiles()) {
    const auto loaded = LoadProfile(name);
    const auto parsed = ParseProfile(ShippedProfileText(name), name);
    ASSERT_TRUE(loaded.ok() && parsed.ok());
    EXPECT_EQ(loaded->hash, parsed->hash);
  }
}

}  // namespace
}  // namespace schedtwin
