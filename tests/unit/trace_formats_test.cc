// Every format by small files made by hand, one for each quirk; the real files, where they are,
// against the figures in the data's README.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/data.h"
#include "traces/formats/number.h"
#include "traces/reader.h"
#include "traces/source.h"
#include "traces/stats.h"

namespace schedtwin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kNone = RequestSpec::kNoParent;

Trace Parse(const std::string& text, std::string_view format) {
  const absl::StatusOr<Trace> trace = ParseTrace(text, "t");
  EXPECT_TRUE(trace.ok()) << trace.status();
  if (!trace.ok()) return {};
  EXPECT_EQ(trace->provenance.format, format) << "as it was detected";
  return *trace;
}

/// Each row as "arrival in ns: prompt output".
std::vector<std::string> Rows(const Trace& trace) {
  std::vector<std::string> rows;
  for (const TraceRow& row : trace.rows) {
    rows.push_back(std::to_string(row.arrival_ns) + ": " + std::to_string(row.prompt_tokens) + " " +
                   std::to_string(row.output_tokens));
  }
  return rows;
}

std::vector<std::string> Reasons(const std::vector<ReasonCount>& reasons) {
  std::vector<std::string> list;
  for (const ReasonCount& reason : reasons) {
    list.push_back(reason.reason + " " + std::to_string(reason.rows));
  }
  return list;
}

/// The text of a row as "id:tokens".
std::vector<std::string> Text(const Trace& trace, std::size_t row) {
  std::vector<std::string> text;
  for (const ContentSegment& segment : trace.texts.of(row)) {
    text.push_back(std::to_string(segment.id) + ":" + std::to_string(segment.tokens));
  }
  return text;
}

// ---- Numbers ----

std::string TimeOf(std::string_view text, int unit_digits) {
  ExactTime time;
  if (!ParseTime(text, unit_digits, &time)) return "none";
  return std::to_string(time.ns) + (time.exact ? "" : " rounded");
}

TEST(ParseTime, LosesNoDigit) {
  EXPECT_EQ(TimeOf("0", 9), "0");
  EXPECT_EQ(TimeOf("5", 9), "5000000000");
  EXPECT_EQ(TimeOf("19440110.0", 9), "19440110000000000");
  EXPECT_EQ(TimeOf("4.314579", 9), "4314579000");
  EXPECT_EQ(TimeOf("0.123456789", 9), "123456789");
  EXPECT_EQ(TimeOf("27482.5", 6), "27482500000");
  EXPECT_EQ(TimeOf("1.5e-05", 9), "15000");
  EXPECT_EQ(TimeOf("2.5E+3", 6), "2500000000");
  EXPECT_EQ(TimeOf("00012", 9), "12000000000");
}

TEST(ParseTime, RoundsBelowTheNanosecondAndSaysSo) {
  EXPECT_EQ(TimeOf("1.0000000004", 9), "1000000000 rounded");
  EXPECT_EQ(TimeOf("1.0000000005", 9), "1000000001 rounded");
  EXPECT_EQ(TimeOf("0.9999999999", 9), "1000000000 rounded");
  EXPECT_EQ(TimeOf("1.50000000000000", 9), "1500000000");
  EXPECT_EQ(TimeOf("1e-10", 9), "0 rounded");
  EXPECT_EQ(TimeOf("9e-10", 9), "1 rounded");
}

TEST(ParseTime, IsNoTime) {
  for (const std::string_view text :
       {"", "-1", "+1", ".5", "5.", "1.2.3", "1e", "e5", "1e5.0", "nan", "inf", "0x10", " 1", "1 ",
        "99999999999", "1e12", "1e9999"}) {
    EXPECT_EQ(TimeOf(text, 9), "none") << text;
  }
}

// ---- Azure ----

TEST(AzureLlm2024, ReadsStampsWithAndWithoutFraction) {
  const Trace trace = Parse(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2024-05-12 00:00:00+00:00,2162,5\n"
      "2024-05-12 00:00:00.009930+00:00,2399,6\n"
      "2024-05-12 02:00:01+02:00,76,15\n",
      "azure_llm_2024");
  EXPECT_THAT(Rows(trace), ElementsAre("0: 2162 5", "9930000: 2399 6", "1000000000: 76 15"));
  EXPECT_TRUE(trace.provenance.was_sorted());
}

TEST(AzureLlm2024, AcrossMidnightAndALeapDay) {
  const Trace trace = Parse(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2024-02-28 23:59:59.999999+00:00,1,1\r\n"
      "2024-02-29 00:00:00+00:00,1,1\r\n"
      "2024-02-28 22:30:01-01:30,1,1",
      "azure_llm_2024");
  EXPECT_THAT(Rows(trace), ElementsAre("0: 1 1", "1000: 1 1", "1000001000: 1 1"));
}

TEST(AzureLmm2025, KeepsTheImages) {
  const Trace trace = Parse(
      "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
      "2024-10-15T12:00:00.269Z,0,770,491\n"
      "2024-10-15T12:00:05.819Z,2,949,126\n",
      "azure_lmm_2025");
  EXPECT_THAT(Rows(trace), ElementsAre("0: 770 491", "5550000000: 949 126"));
  EXPECT_THAT(trace.images, ElementsAre(0, 2));
}

// ---- BurstGPT ----

TEST(BurstGpt, FirstFilesByWholeSeconds) {
  const Trace trace = Parse(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5,ChatGPT,472,18,490,Conversation log\n"
      "45,GPT-4,1087,230,1317,API log\n"
      "45,ChatGPT,3,1,4,API log\n",
      "burstgpt");
  EXPECT_THAT(Rows(trace), ElementsAre("0: 472 18", "40000000000: 1087 230", "40000000000: 3 1"));
  EXPECT_THAT(trace.class_names, ElementsAre("ChatGPT", "GPT-4"));
  EXPECT_THAT(trace.classes, ElementsAre(1, 2, 1));
  EXPECT_THAT(trace.sessions, IsEmpty());
  EXPECT_THAT(Reasons(trace.provenance.flagged), ElementsAre("api 2"));
}

TEST(BurstGpt, ThirdFileHasSessionsAndOtherPlacesForItsColumns) {
  const Trace trace = Parse(
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log "
      "Type\n"
      "19440110.0,aa,43,GPT-4,906,446,1352,Conversation log\n"
      "19440111.5,,2,ChatGPT,36,29,65,API log\n"
      "19440112.0,bb,2,ChatGPT,36,29,65,Conversation log\n"
      "19440113.0,aa,2,GPT-4,1400,10,1410,Conversation log\n",
      "burstgpt");
  EXPECT_THAT(trace.sessions, ElementsAre(1, 0, 2, 1));
  EXPECT_EQ(trace.rows[1].arrival_ns, 1'500'000'000);
}

TEST(BurstGpt, FailuresAreFlaggedAndNotLost) {
  const Trace trace = Parse(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5,ChatGPT,472,0,472,Conversation log\n"
      "6,ChatGPT,0,0,0,Conversation log\n",
      "burstgpt");
  EXPECT_THAT(Rows(trace), ElementsAre("0: 472 1"));
  EXPECT_THAT(Reasons(trace.provenance.flagged), ElementsAre("failed 1"));
  EXPECT_THAT(Reasons(trace.provenance.dropped), ElementsAre("zero_prompt_tokens 1"));
}

// ---- Simulators ----

TEST(Vidur, SecondsWithManyDigits) {
  const Trace trace = Parse(
      "arrived_at,num_prefill_tokens,num_decode_tokens\n"
      "0.5,374,44\n"
      "4.8145790000000001,396,109\n",
      "vidur");
  EXPECT_THAT(Rows(trace), ElementsAre("0: 374 44", "4314579000: 396 109"));
  EXPECT_THAT(Reasons(trace.provenance.flagged), ElementsAre("time_rounded_to_ns 1"));
}

TEST(Splitwise, ApplicationsAreTenantsAndTypesClasses) {
  const Trace trace = Parse(
      "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
      "0,2,7,1,1,4096,32\n"
      "1,1,9,3.25,1,2048,8\n"
      "2,2,7,4,3,2048,16\n",
      "splitwise");
  EXPECT_THAT(Rows(trace), ElementsAre("0: 4096 32", "2250000000: 2048 8"));
  EXPECT_THAT(trace.tenants, ElementsAre(1, 2));
  EXPECT_THAT(trace.class_names, ElementsAre("2", "1"));
  EXPECT_THAT(Reasons(trace.provenance.dropped), ElementsAre("batch_size_not_1 1"));
}

TEST(LlmServingSim, TokenIdsNameTheText) {
  std::string shared = "1";
  for (int i = 2; i <= 16; ++i) shared += "," + std::to_string(i);
  const Trace trace = Parse(
      "{\"input_toks\":18,\"output_toks\":2,\"arrival_time_ns\":46926808,\"input_tok_ids\":[" +
          shared + ",90,91],\"output_tok_ids\":[7,8]}\n" +
          "{\"input_toks\":17,\"output_toks\":3,\"arrival_time_ns\":46926809,\"input_tok_ids\":[" +
          shared + ",92]}\n" +
          "{\"input_toks\":5,\"output_toks\":1,\"arrival_time_ns\":46926810}\n",
      "llmservingsim");
  EXPECT_THAT(Rows(trace), ElementsAre("0: 18 2", "1: 17 3", "2: 5 1"));
  ASSERT_EQ(trace.texts.of(0).size(), 2u);
  ASSERT_EQ(trace.texts.of(1).size(), 2u);
  EXPECT_EQ(trace.texts.of(0)[0].id, trace.texts.of(1)[0].id);
  EXPECT_NE(trace.texts.of(0)[1].id, trace.texts.of(1)[1].id);
  EXPECT_EQ(trace.texts.of(0)[1].tokens, 2u);
  EXPECT_TRUE(trace.texts.of(2).empty());
}

// ---- With prefix blocks ----

TEST(Mooncake, BlocksOf512TokensTheLastOnePartial) {
  const Trace trace =
      Parse(R"({"timestamp": 0, "input_length": 1030, "output_length": 500, "hash_ids": [0, 1, 2]})"
            "\n"
            R"({"timestamp": 27, "input_length": 512, "output_length": 4, "hash_ids": [0]})",
            "mooncake");
  EXPECT_THAT(Rows(trace), ElementsAre("0: 1030 500", "27000000: 512 4"));
  EXPECT_THAT(Text(trace, 0), ElementsAre("1:512", "2:512", "3:6"));
  EXPECT_THAT(Text(trace, 1), ElementsAre("1:512"));
}

TEST(QwenBailian, ChatsThatContinueOneAnotherAreASession) {
  const Trace trace =
      Parse(R"({"chat_id": 4, "parent_chat_id": -1, "timestamp": 0.0, "input_length": 17, )"
            R"("output_length": 9, "type": "text", "turn": 1, "hash_ids": [0, 1]})"
            "\n"
            R"({"chat_id": 5, "parent_chat_id": -1, "timestamp": 0.25, "input_length": 16, )"
            R"("output_length": 9, "type": "search", "turn": 1, "hash_ids": [7]})"
            "\n"
            R"({"chat_id": 9, "parent_chat_id": 4, "timestamp": 3.5, "input_length": 33, )"
            R"("output_length": 9, "type": "text", "turn": 2, "hash_ids": [0, 2, 3]})"
            "\n"
            R"({"chat_id": 11, "parent_chat_id": 9, "timestamp": 4, "input_length": 1, )"
            R"("output_length": 9, "type": "text", "turn": 3, "hash_ids": [0]})"
            "\n"
            R"({"chat_id": 12, "parent_chat_id": 3, "timestamp": 5, "input_length": 1, )"
            R"("output_length": 9, "type": "text", "turn": 8, "hash_ids": [40]})",
            "qwen_bailian");
  EXPECT_EQ(trace.rows[2].arrival_ns, 3'500'000'000);
  EXPECT_THAT(trace.sessions, ElementsAre(1, 2, 1, 1, 3));
  EXPECT_THAT(trace.parents, ElementsAre(kNone, kNone, 0, 2, kNone));
  EXPECT_THAT(trace.classes, ElementsAre(1, 2, 1, 1, 1));
  EXPECT_THAT(Text(trace, 2), ElementsAre("1:16", "3:16", "4:1"));
  EXPECT_THAT(Reasons(trace.provenance.flagged), ElementsAre("parent_not_in_trace 1"));
}

// ---- What is said of rows follows them ----

TEST(TraceDetails, MoveWithTheirRowsWhenTheyAreSorted) {
  const auto line = [](int chat, int parent, int at, int block) {
    return "{\"chat_id\": " + std::to_string(chat) +
           ", \"parent_chat_id\": " + std::to_string(parent) +
           ", \"timestamp\": " + std::to_string(at) +
           ", \"input_length\": 16, \"output_length\": 1, \"type\": \"t" + std::to_string(chat) +
           "\", \"hash_ids\": [" + std::to_string(block) + "]}\n";
  };
  const Trace trace =
      Parse(line(3, 1, 30, 33) + line(1, -1, 10, 11) + line(2, 3, 20, 22), "qwen_bailian");
  EXPECT_EQ(trace.provenance.rows_out_of_order, 2u);
  EXPECT_THAT(Text(trace, 0), ElementsAre("12:16"));
  EXPECT_THAT(Text(trace, 2), ElementsAre("34:16"));
  EXPECT_THAT(trace.parents, ElementsAre(kNone, kNone, 0));
  EXPECT_THAT(Reasons(trace.provenance.flagged), ElementsAre("parent_not_before 1"));
  EXPECT_EQ(trace.class_names[trace.classes[0] - 1], "t1");
}

TEST(TraceDetails, AreWhatRequestsSay) {
  auto trace = std::make_shared<const Trace>(
      Parse(R"({"chat_id": 1, "parent_chat_id": -1, "timestamp": 0, "input_length": 20, )"
            R"("output_length": 9, "type": "text", "hash_ids": [0, 1]})"
            "\n"
            R"({"chat_id": 2, "parent_chat_id": 1, "timestamp": 1, "input_length": 40, )"
            R"("output_length": 9, "type": "text", "hash_ids": [0, 2, 3]})",
            "qwen_bailian"));
  auto source = TraceSource::Create(trace, {});
  ASSERT_TRUE(source.ok()) << source.status();
  RequestSpec first, second;
  ASSERT_EQ((*source)->Next(&first), Pull::kRequest);
  EXPECT_EQ(first.content.size(), 2u);
  ASSERT_EQ((*source)->Next(&second), Pull::kRequest);
  EXPECT_EQ(second.session, first.session);
  EXPECT_EQ(second.parent, 0u);
  EXPECT_EQ(second.request_class, 1u);
  EXPECT_EQ(second.content[0].id, first.content[0].id);
  EXPECT_EQ((*source)->Next(&second), Pull::kDry);
}

TEST(TextStats, CountsWhatAnUnlimitedCacheWouldHave) {
  const auto trace = std::make_shared<const Trace>(
      Parse(R"({"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [0, 1]})"
            "\n"
            R"({"timestamp": 1, "input_length": 1100, "output_length": 1, "hash_ids": [0, 2, 1]})"
            "\n"
            R"({"timestamp": 2, "input_length": 1100, "output_length": 1, "hash_ids": [0, 2, 1]})",
            "mooncake"));
  auto source = TraceSource::Create(trace, {});
  ASSERT_TRUE(source.ok()) << source.status();
  const TextStats stats = ComputeTextStats(source->get());
  // The second finds its first block, the third all of it; block 1 behind another text is another.
  EXPECT_DOUBLE_EQ(*stats.prefix_hit_ideal, (512.0 + 1100) / (1024 + 2 * 1100));
  EXPECT_EQ(stats.sessions, 0u);
}

// ---- Real files ----

struct RealFile {
  const char* name;
  const char* path;  ///< under traces/
  const char* format;
  std::size_t rows;

  friend void PrintTo(const RealFile& file, std::ostream* out) { *out << file.name; }
};

class RealTrace : public testing::TestWithParam<RealFile> {};

TEST_P(RealTrace, IsDetectedAndReadWhole) {
  const std::string path = DataFile(std::string("traces/") + GetParam().path);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const absl::StatusOr<Trace> trace = ReadTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->provenance.format, GetParam().format);
  EXPECT_EQ(trace->rows.size(), GetParam().rows);
  EXPECT_THAT(trace->provenance.dropped, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Files, RealTrace,
    testing::Values(
        RealFile{"Azure2024Code",
                 "azure-llm-2024-transcribed/AzureLLMInferenceTrace_code_1week.head5.csv",
                 "azure_llm_2024", 5},
        RealFile{"Azure2024Conv",
                 "azure-llm-2024-transcribed/AzureLLMInferenceTrace_conv_1week.head5.csv",
                 "azure_llm_2024", 5},
        RealFile{"AzureLmm",
                 "azure-lmm-2025-transcribed/AzureLMMInferenceTrace_multimodal.head5.csv",
                 "azure_lmm_2025", 5},
        RealFile{"BurstGpt1", "burstgpt-transcribed/BurstGPT_1.rows.csv", "burstgpt", 7},
        RealFile{"BurstGpt3", "burstgpt-transcribed/BurstGPT_3.rows.csv", "burstgpt", 4},
        RealFile{"Bailian", "qwen-bailian-transcribed/thinking.row1.jsonl", "qwen_bailian", 1},
        RealFile{"LlmServingSim", "llmservingsim/example_trace.jsonl", "llmservingsim", 10},
        RealFile{"Splitwise", "splitwise-sim/test_trace.csv", "splitwise", 3},
        RealFile{"VidurConv", "vidur/splitwise_conv.csv", "vidur", 19366}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(MooncakeFile, HasThePublishedFigures) {
  const std::string path = DataFile("traces/mooncake-fast25/conversation_trace.jsonl");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  absl::StatusOr<Trace> read = ReadTrace(path);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto trace = std::make_shared<const Trace>(*std::move(read));
  const TraceStats stats = ComputeTraceStats(trace->rows);
  EXPECT_EQ(stats.rows, 12'031u);
  EXPECT_NEAR(*stats.rate_rps, 3.40, 0.005);
  EXPECT_NEAR(*stats.gap_cv, 3.03, 0.005);
  EXPECT_NEAR(stats.prompt_tokens.mean, 12035, 0.5);
  EXPECT_EQ(stats.prompt_tokens.p50, 6909);
  EXPECT_NEAR(stats.prompt_tokens.p99, 85400, 0.5);
  EXPECT_NEAR(stats.output_tokens.mean, 343, 0.5);
  EXPECT_EQ(stats.output_tokens.p50, 350);
  EXPECT_NEAR(stats.output_tokens.p99, 1119, 0.5);
  auto source = TraceSource::Create(trace, {});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_NEAR(*ComputeTextStats(source->get()).prefix_hit_ideal, 0.374, 0.0005);
}

TEST(VidurFile, IsTheAzureConversationsFromTheirFirstArrival) {
  const std::string vidur = DataFile("traces/vidur/splitwise_conv.csv");
  const std::string azure = AzureConvFile();
  if (!std::filesystem::exists(vidur)) GTEST_SKIP() << "no " << vidur;
  const absl::StatusOr<Trace> one = ReadTrace(vidur), other = ReadTrace(azure);
  ASSERT_TRUE(one.ok() && other.ok());
  ASSERT_EQ(one->rows.size(), other->rows.size());
  for (std::size_t i = 0; i < one->rows.size(); ++i) {
    // Vidur's file was written with microseconds.
    ASSERT_LE(std::abs(one->rows[i].arrival_ns - other->rows[i].arrival_ns), 1'000) << i;
    ASSERT_EQ(one->rows[i].prompt_tokens, other->rows[i].prompt_tokens) << i;
    ASSERT_EQ(one->rows[i].output_tokens, other->rows[i].output_tokens) << i;
  }
}

}  // namespace
}  // namespace schedtwin
