// The same mistakes in every format: each is an error of one line that names file and line, and
// what stands there; what is no mistake is read. Never a crash, never a row that is silently lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/reader.h"

namespace schedtwin {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// How to write a small file of a format: a header, if it has one, and rows, of which some field is
/// wrong.
struct Format {
  const char* name;
  const char* header;  ///< empty: none
  const char* time;    ///< the name of that field, and so on
  const char* prompt;
  const char* key;  ///< empty: rows have none
  /// A row: its key, time in whole units, and prompt as it is to be written.
  std::string (*row)(const std::string& key, const std::string& time, const std::string& prompt);
  const char* times[3];  ///< good ones, rising

  bool json() const { return header[0] == 0; }
  friend void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }
};

using S = std::string;

const Format kFormats[] = {
    {"azure_llm_2023",
     "TIMESTAMP,ContextTokens,GeneratedTokens",
     "TIMESTAMP",
     "ContextTokens",
     "",
     [](const S&, const S& time, const S& prompt) { return time + "," + prompt + ",5"; },
     {"2023-11-16 18:00:00.0000000", "2023-11-16 18:00:01.0000000", "2023-11-16 18:00:02.5000000"}},
    {"azure_llm_2024",
     "TIMESTAMP,ContextTokens,GeneratedTokens",
     "TIMESTAMP",
     "ContextTokens",
     "",
     [](const S&, const S& time, const S& prompt) { return time + "," + prompt + ",5"; },
     {"2024-05-10 00:00:00+00:00", "2024-05-10 00:00:01+00:00",
      "2024-05-10 00:00:02.500000+00:00"}},
    {"azure_lmm_2025",
     "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens",
     "TIMESTAMP",
     "ContextTokens",
     "",
     [](const S&, const S& time, const S& prompt) { return time + ",1," + prompt + ",5"; },
     {"2024-10-15T12:00:00.000Z", "2024-10-15T12:00:01.000Z", "2024-10-15T12:00:02.500Z"}},
    {"burstgpt",
     "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
     "Timestamp",
     "Request tokens",
     "",
     [](const S&, const S& time, const S& prompt) {
       return time + ",ChatGPT," + prompt + ",5,9,API log";
     },
     {"0", "1", "2.5"}},
    {"vidur",
     "arrived_at,num_prefill_tokens,num_decode_tokens",
     "arrived_at",
     "num_prefill_tokens",
     "",
     [](const S&, const S& time, const S& prompt) { return time + "," + prompt + ",5"; },
     {"0", "1", "2.5"}},
    {"splitwise",
     "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size",
     "arrival_timestamp",
     "prompt_size",
     "request_id",
     [](const S& key, const S& time, const S& prompt) {
       return key + ",2,0," + time + ",1," + prompt + ",5";
     },
     {"0", "1", "2.5"}},
    {"qwen_bailian",
     "",
     "timestamp",
     "input_length",
     "chat_id",
     [](const S& key, const S& time, const S& prompt) {
       return "{\"chat_id\": " + key + ", \"parent_chat_id\": -1, \"timestamp\": " + time +
              ", \"input_length\": " + prompt +
              ", \"output_length\": 5, \"type\": \"text\", \"hash_ids\": [0]}";
     },
     {"0", "1", "2.5"}},
    {"mooncake",
     "",
     "timestamp",
     "input_length",
     "",
     [](const S&, const S& time, const S& prompt) {
       return "{\"timestamp\": " + time + ", \"input_length\": " + prompt +
              ", \"output_length\": 5, \"hash_ids\": [0]}";
     },
     {"0", "1000", "2500.0"}},
    {"llmservingsim",
     "",
     "arrival_time_ns",
     "input_toks",
     "",
     [](const S&, const S& time, const S& prompt) {
       return "{\"input_toks\": " + prompt + ", \"output_toks\": 5, \"arrival_time_ns\": " + time +
              "}";
     },
     {"0", "1000000000", "2500000000"}},
};

class EveryFormat : public testing::TestWithParam<Format> {
 protected:
  /// A row as it should be: the i-th of three.
  S Row(int i) const { return Row(i, GetParam().times[i]); }
  S Row(int i, const S& time, const S& prompt = "7") const {
    return GetParam().row(std::to_string(i), time, prompt);
  }
  /// Three lines under the header, of which the second is `middle`; it is line 3, or 2 without one.
  S File(const S& middle, const S& end = "\n") const {
    const S header = GetParam().json() ? "" : GetParam().header + end;
    return header + Row(0) + end + middle + end + Row(2) + end;
  }
  int MiddleLine() const { return GetParam().json() ? 2 : 3; }

  static S Error(const S& text, std::string_view format = {}) {
    const absl::StatusOr<Trace> trace = ParseTrace(text, "t", format);
    EXPECT_FALSE(trace.ok()) << text;
    const S message(trace.status().message());
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    return message;
  }
  S MiddleError(const S& middle) const {
    const S message = Error(File(middle), GetParam().name);
    EXPECT_THAT(message, StartsWith("t:" + std::to_string(MiddleLine()) + ": "));
    return message;
  }
};

TEST_P(EveryFormat, ReadsWhatIsRightHoweverItsLinesEnd) {
  const S text = File(Row(1));
  const S unended = text.substr(0, text.size() - 1);
  for (const S& variant : {text, unended, text + "\n\n", File(Row(1), "\r\n"),
                           "\xef\xbb\xbf" + text, "\xef\xbb\xbf" + File(Row(1), "\r\n")}) {
    const absl::StatusOr<Trace> trace = ParseTrace(variant, "t");
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->provenance.format, GetParam().name) << "detected";
    ASSERT_EQ(trace->rows.size(), 3u);
    EXPECT_EQ(trace->rows[1].arrival_ns, 1'000'000'000);
    EXPECT_EQ(trace->rows[2].arrival_ns, 2'500'000'000);
    EXPECT_EQ(trace->rows[2].prompt_tokens, 7u);
    EXPECT_EQ(trace->provenance.source_bytes, variant.size());
    EXPECT_EQ(trace->provenance.rows_read, 3u);
  }
}

TEST_P(EveryFormat, SortsWhatIsOutOfOrderStablyAndSaysSo) {
  const Format& format = GetParam();
  S text = format.json() ? "" : S(format.header) + "\n";
  text += Row(0, format.times[1], "3") + "\n" + Row(1, format.times[0], "4") + "\n" +
          Row(2, format.times[1], "5") + "\n";
  const absl::StatusOr<Trace> trace = ParseTrace(text, "t");
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::vector<std::uint32_t> prompts;
  for (const TraceRow& row : trace->rows) prompts.push_back(row.prompt_tokens);
  EXPECT_THAT(prompts, testing::ElementsAre(4, 3, 5));
  EXPECT_EQ(trace->rows[0].arrival_ns, 0);
  EXPECT_EQ(trace->provenance.rows_out_of_order, 1u);
}

TEST_P(EveryFormat, NamesAFileWithoutRows) {
  EXPECT_THAT(Error("", GetParam().name), HasSubstr("t:1: the file is empty"));
  if (GetParam().json()) return;
  for (const char* end : {"", "\n", "\r\n"}) {
    EXPECT_THAT(Error(S(GetParam().header) + end, GetParam().name),
                HasSubstr("t:1: found no row after the header"));
  }
}

TEST_P(EveryFormat, NamesBadNumbers) {
  for (const char* prompt :
       {"abc", "-3", "7.5", "1e3", "\"7x\"", "99999999999999999999999", "null", "1000000001", ""}) {
    const S message = MiddleError(Row(1, GetParam().times[1], prompt));
    // What is no JSON has no fields.
    EXPECT_THAT(message, AnyOf(HasSubstr(GetParam().prompt), HasSubstr("found no JSON"))) << prompt;
    EXPECT_THAT(message, HasSubstr("expected")) << prompt;
  }
}

TEST_P(EveryFormat, NamesBadTimes) {
  for (const char* time : {"-1", "noon", "1e30", "", "1.2.3", "\"x\""}) {
    const S message = MiddleError(Row(1, time));
    EXPECT_THAT(message, AnyOf(HasSubstr(GetParam().time), HasSubstr("found no JSON"))) << time;
    EXPECT_THAT(message, HasSubstr("expected")) << time;
  }
}

TEST_P(EveryFormat, NamesWhatIsMissingOrTooMuch) {
  const S row = Row(1);
  if (GetParam().json()) {
    EXPECT_THAT(MiddleError("{}"), HasSubstr("found no key"));
    EXPECT_THAT(MiddleError("[1]"), HasSubstr("found an array, not an object"));
    EXPECT_THAT(MiddleError("7"), HasSubstr("found no object"));
    EXPECT_THAT(MiddleError(row.substr(0, row.size() / 2)), HasSubstr("found no JSON"));
    EXPECT_THAT(MiddleError(row + row), HasSubstr("found no JSON"));
    EXPECT_THAT(MiddleError("{\"a\": 1, \"a\": 2}"), HasSubstr("found the key 'a' twice"));
    return;
  }
  EXPECT_THAT(MiddleError(row.substr(0, row.rfind(','))), HasSubstr("column"));
  EXPECT_THAT(MiddleError(row + ",5"), HasSubstr("column"));
  const S header = GetParam().header;
  const S first = header.substr(0, header.find(','));
  const S other = "x" + header.substr(first.size());
  EXPECT_THAT(Error(other + "\n" + row + "\n", GetParam().name), HasSubstr("t:1: found"));
}

TEST_P(EveryFormat, NamesEmptyLinesBetweenRows) {
  EXPECT_THAT(MiddleError(""), HasSubstr("found an empty line"));
}

class KeyedFormat : public EveryFormat {};

TEST_P(KeyedFormat, NamesAKeyThatIsThereTwice) {
  const S message = MiddleError(Row(0, GetParam().times[1]));
  EXPECT_THAT(message, HasSubstr(S(GetParam().key) + " is '0', as "));
}

TEST_P(EveryFormat, NamesNulBytesAndBinary) {
  S row = Row(1);
  row[row.size() / 2] = '\0';
  EXPECT_THAT(MiddleError(row), HasSubstr("expected"));
  MiddleError("\xff\xfe\x01");
  MiddleError(S(100'000, '['));
  MiddleError(S(100'000, '"'));
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, testing::ValuesIn(kFormats),
                         [](const auto& param_info) { return S(param_info.param.name); });

std::vector<Format> WithKeys() {
  std::vector<Format> formats;
  for (const Format& format : kFormats) {
    if (format.key[0] != 0) formats.push_back(format);
  }
  return formats;
}

INSTANTIATE_TEST_SUITE_P(Formats, KeyedFormat, testing::ValuesIn(WithKeys()),
                         [](const auto& param_info) { return S(param_info.param.name); });

TEST(TraceMistakes, AreTriedInEveryFormat) {
  std::vector<std::string_view> tried, known;
  for (const Format& format : kFormats) tried.push_back(format.name);
  for (const TraceFormat* format : TraceFormats()) known.push_back(format->name);
  EXPECT_THAT(tried, testing::UnorderedElementsAreArray(known));
}

TEST(MooncakeMistakes, NamesTheWrongNumberOfBlocks) {
  const absl::StatusOr<Trace> trace = ParseTrace(
      R"({"timestamp": 0, "input_length": 513, "output_length": 5, "hash_ids": [0]})", "t");
  EXPECT_EQ(trace.status().message(),
            "t:1: hash_ids is an array of 1; expected 2, one for each 512 tokens of input_length; "
            "mend or remove the line");
}

TEST(LlmServingSimMistakes, NamesTheWrongNumberOfTokenIds) {
  const absl::StatusOr<Trace> trace = ParseTrace(
      R"({"input_toks": 3, "output_toks": 5, "arrival_time_ns": 1, "input_tok_ids": [1, 2]})", "t");
  EXPECT_EQ(
      trace.status().message(),
      "t:1: input_tok_ids is an array of 2; expected as many as input_toks, 3; mend or remove "
      "the line");
}

}  // namespace
}  // namespace schedtwin
