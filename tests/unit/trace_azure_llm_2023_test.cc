// The reader of azure_llm_2023: no digit lost, every calendar edge, every mistake named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "traces/reader.h"

namespace schedtwin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

Trace Parse(const std::string& rows) {
  absl::StatusOr<Trace> trace = ParseTrace(kHeader + rows, "t.csv");
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? *std::move(trace) : Trace();
}

std::string Error(const std::string& text, std::string_view format = {}) {
  const absl::StatusOr<Trace> trace = ParseTrace(text, "t.csv", format);
  EXPECT_FALSE(trace.ok());
  const std::string message(trace.status().message());
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  return message;
}

std::vector<std::int64_t> Arrivals(const Trace& trace) {
  std::vector<std::int64_t> arrivals;
  for (const TraceRow& row : trace.rows) arrivals.push_back(row.arrival_ns);
  return arrivals;
}

// Nanoseconds between two timestamps.
std::int64_t Between(const std::string& first, const std::string& second) {
  return Parse(first + ",1,1\n" + second + ",1,1\n").rows.at(1).arrival_ns;
}

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kDay = 86'400 * kSecond;

TEST(AzureLlm2023, ReadsRowsToTheLastDigit) {
  const Trace trace = Parse(
      "2023-11-16 18:17:03.9799600,4808,10\n"
      "2023-11-16 18:17:03.9799601,3180,8\n"
      "2023-11-16 18:17:04.0319600,110,27\n");
  EXPECT_THAT(Arrivals(trace), ElementsAre(0, 100, 52'000'000));
  EXPECT_EQ(trace.rows[0].prompt_tokens, 4808u);
  EXPECT_EQ(trace.rows[0].output_tokens, 10u);
  EXPECT_EQ(trace.rows[2].prompt_tokens, 110u);
  EXPECT_EQ(trace.rows[2].output_tokens, 27u);
  EXPECT_EQ(trace.rows[2].units, 1u);
}

TEST(AzureLlm2023, LineEndsAndLastNewlineDoNotMatter) {
  const std::string lf =
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 "
      "18:17:04.0319600,3180,8";
  std::string crlf;
  for (const char c : lf) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  const std::string texts[] = {lf,   lf + "\n",     lf + "\n\n\n",
                               crlf, crlf + "\r\n", "\xef\xbb\xbf" + crlf};
  for (const std::string& text : texts) {
    const absl::StatusOr<Trace> trace = ParseTrace(text, "t.csv");
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_THAT(Arrivals(*trace), ElementsAre(0, 52'000'000));
    EXPECT_EQ(trace->rows[1].output_tokens, 8u);
    EXPECT_EQ(trace->provenance.source_bytes, text.size());
  }
}

TEST(AzureLlm2023, CalendarEdges) {
  EXPECT_EQ(Between("2023-11-16 23:59:59.9999999", "2023-11-17 00:00:00.0000000"), 100);
  EXPECT_EQ(Between("2023-11-30 23:59:59.0000000", "2023-12-01 00:00:00.0000000"), kSecond);
  EXPECT_EQ(Between("2023-12-31 23:59:59.5000000", "2024-01-01 00:00:00.0000000"), kSecond / 2);
  EXPECT_EQ(Between("2024-02-28 12:00:00.0000000", "2024-03-01 12:00:00.0000000"), 2 * kDay);
  EXPECT_EQ(Between("2023-02-28 12:00:00.0000000", "2023-03-01 12:00:00.0000000"), kDay);
  EXPECT_EQ(Between("2000-02-28 00:00:00.0000000", "2000-03-01 00:00:00.0000000"), 2 * kDay);
  EXPECT_EQ(Between("2100-02-28 00:00:00.0000000", "2100-03-01 00:00:00.0000000"), kDay);
  EXPECT_EQ(Between("2023-01-01 00:00:00.0000000", "2024-01-01 00:00:00.0000000"), 365 * kDay);
  EXPECT_EQ(Between("2024-01-01 00:00:00.0000000", "2025-01-01 00:00:00.0000000"), 366 * kDay);
  EXPECT_EQ(Between("1970-01-01 00:00:00.0000000", "2261-12-31 23:59:59.9999999"),
            (106'650 + 1) * kDay - 100);
}

TEST(AzureLlm2023, SortsStablyAndSaysSo) {
  const Trace trace = Parse(
      "2023-11-16 18:00:02.0000000,1,1\n"
      "2023-11-16 18:00:01.0000000,2,1\n"
      "2023-11-16 18:00:02.0000000,3,1\n"
      "2023-11-16 18:00:01.0000000,4,1\n");
  EXPECT_THAT(Arrivals(trace), ElementsAre(0, 0, kSecond, kSecond));
  std::vector<std::uint32_t> order;
  for (const TraceRow& row : trace.rows) order.push_back(row.prompt_tokens);
  EXPECT_THAT(order, ElementsAre(2, 4, 1, 3));
  EXPECT_EQ(trace.provenance.rows_out_of_order, 2u);
  EXPECT_FALSE(trace.provenance.was_sorted());
  EXPECT_THAT(trace.provenance.transforms, ElementsAre("sorted"));
}

TEST(AzureLlm2023, DropsRowsThatNoModelCanServeAndCountsThem) {
  const Trace trace = Parse(
      "2023-11-16 18:00:00.0000000,0,5\n"
      "2023-11-16 18:00:01.0000000,5,5\n"
      "2023-11-16 18:00:02.0000000,5,0\n"
      "2023-11-16 18:00:03.0000000,5,0\n");
  EXPECT_THAT(Arrivals(trace), ElementsAre(0));
  EXPECT_EQ(trace.provenance.rows_read, 4u);
  EXPECT_EQ(trace.provenance.rows_kept, 1u);
  ASSERT_EQ(trace.provenance.dropped.size(), 2u);
  EXPECT_EQ(trace.provenance.dropped[0].reason, "zero_prompt_tokens");
  EXPECT_EQ(trace.provenance.dropped[0].rows, 1u);
  EXPECT_EQ(trace.provenance.dropped[1].reason, "zero_output_tokens");
  EXPECT_EQ(trace.provenance.dropped[1].rows, 2u);
}

TEST(AzureLlm2023, StatesItsProvenance) {
  const Trace trace = Parse("2023-11-16 18:00:00.0000000,5,5\n");
  EXPECT_EQ(trace.provenance.source, "t.csv");
  EXPECT_EQ(trace.provenance.format, "azure_llm_2023");
  EXPECT_FALSE(trace.provenance.synthetic());
  EXPECT_TRUE(trace.provenance.was_sorted());
  EXPECT_EQ(trace.provenance.draws, 0u);
  const Trace other = Parse("2023-11-16 18:00:00.0000000,5,6\n");
  EXPECT_NE(trace.provenance.content_hash, other.provenance.content_hash);
}

TEST(AzureLlm2023, NeverMisreads2024) {
  for (const std::string stamp :
       {"2024-05-10 00:00:00.009930+00:00", "2024-05-12 00:00:00+00:00", "2024-05-12 00:00:00",
        "2024-05-12T00:00:00.123Z", "2024-05-12 00:00:00.1234567+00:00"}) {
    const std::string error = Error(kHeader + stamp + ",2162,5\n", "azure_llm_2023");
    EXPECT_THAT(error, HasSubstr("t.csv:2: TIMESTAMP is '" + stamp +
                                 "', which is the Azure LLM 2024 format"));
    EXPECT_THAT(error,
                HasSubstr("expected a date and time with seven fraction digits and no zone"));
  }
}

TEST(AzureLlm2023, NamesBadTimestamps) {
  const std::string good = "2023-11-16 18:00:00.0000000,5,5\n";
  for (const std::string stamp : {"2023-13-16 18:00:00.0000000",
                                  "2023-00-16 18:00:00.0000000",
                                  "2023-11-31 18:00:00.0000000",
                                  "2023-02-29 18:00:00.0000000",
                                  "2100-02-29 18:00:00.0000000",
                                  "2023-11-00 18:00:00.0000000",
                                  "2023-11-16 24:00:00.0000000",
                                  "2023-11-16 18:60:00.0000000",
                                  "2023-11-16 18:00:60.0000000",
                                  "1969-12-31 18:00:00.0000000",
                                  "2262-01-01 18:00:00.0000000",
                                  "2023/11/16 18:00:00.0000000",
                                  "2023-11-16 18:00:00,0000000",
                                  "2023-11-16 18:00:00.000000x",
                                  "2023-11-16 18-00-00.0000000",
                                  "2023-11-16 18:00:00.000000",
                                  "2023-11-16 18:00:00.00000000",
                                  "1700158623.9799600",
                                  "yesterday",
                                  ""}) {
    const std::string error = Error(kHeader + good + stamp + ",5,5\n");
    EXPECT_THAT(error, HasSubstr("t.csv:3: ")) << stamp;
    // The one with a comma in it has a column too many.
    if (stamp.find(',') == stamp.npos) {
      EXPECT_THAT(error, HasSubstr("TIMESTAMP is '" + stamp + "'"));
    }
    EXPECT_THAT(error, HasSubstr("expected ")) << stamp;
  }
}

TEST(AzureLlm2023, NamesBadNumbers) {
  const std::string stamp = "2023-11-16 18:00:00.0000000,";
  const auto context = [&](const std::string& value) {
    return Error(kHeader + stamp + value + ",5\n");
  };
  const auto generated = [&](const std::string& value) {
    return Error(kHeader + stamp + "5," + value + "\n");
  };
  const std::string expected = "; expected an integer from 0 to 1000000000; mend or remove the row";
  EXPECT_EQ(context("abc"), "t.csv:2: ContextTokens is 'abc'" + expected);
  EXPECT_EQ(generated("abc"), "t.csv:2: GeneratedTokens is 'abc'" + expected);
  EXPECT_EQ(context("-3"), "t.csv:2: ContextTokens is '-3', a negative number" + expected);
  EXPECT_EQ(generated("-3"), "t.csv:2: GeneratedTokens is '-3', a negative number" + expected);
  for (const std::string value :
       {"", " 5", "5 ", "+5", "5.0", "1e3", "0x10", "1000000001", "99999999999999999999"}) {
    EXPECT_EQ(context(value), "t.csv:2: ContextTokens is '" + value + "'" + expected);
    EXPECT_EQ(generated(value), "t.csv:2: GeneratedTokens is '" + value + "'" + expected);
  }
  EXPECT_EQ(generated(std::string("5\0", 2)), "t.csv:2: GeneratedTokens is '5\\x00'" + expected);
  EXPECT_EQ(Parse(stamp + "1000000000,007\n").rows[0].output_tokens, 7u);
}

TEST(AzureLlm2023, NamesWrongColumnsAndEmptyLines) {
  const std::string good = "2023-11-16 18:00:00.0000000,5,5\n";
  EXPECT_THAT(Error(kHeader + good + "2023-11-16 18:00:00.0000000,5\n"),
              HasSubstr("t.csv:3: found 2 columns in '2023-11-16 18:00:00.0000000,5'; expected 3"));
  EXPECT_THAT(Error(kHeader + good + "2023-11-16 18:00:00.0000000,5,5,5\n"),
              HasSubstr("t.csv:3: found 4 columns"));
  EXPECT_THAT(Error(kHeader + "hello\n"), HasSubstr("t.csv:2: found 1 column in 'hello'"));
  EXPECT_THAT(Error(kHeader + good + "\n" + good), HasSubstr("t.csv:3: found an empty line"));
}

TEST(AzureLlm2023, NamesAWrongHeaderWhenTheFormatIsGiven) {
  EXPECT_THAT(
      Error("TIMESTAMP,Context,Generated\n", "azure_llm_2023"),
      HasSubstr(
          "t.csv:1: found the header 'TIMESTAMP,Context,Generated'; format azure_llm_2023 expects "
          "'TIMESTAMP,ContextTokens,GeneratedTokens'"));
}

TEST(AzureLlm2023, AFileWithoutUsableRowsIsAnError) {
  EXPECT_EQ(Error(kHeader),
            "t.csv:1: found no row after the header; expected at least one request");
  EXPECT_EQ(Error("TIMESTAMP,ContextTokens,GeneratedTokens"),
            "t.csv:1: found no row after the header; expected at least one request");
  EXPECT_EQ(
      Error(kHeader + "2023-11-16 18:00:00.0000000,0,5\n2023-11-16 18:00:00.0000000,5,0\n"),
      "t.csv:1: found no row that can be used, of 2: zero_prompt_tokens 1, zero_output_tokens 1; "
      "expected at least one request");
}

}  // namespace
}  // namespace schedtwin
