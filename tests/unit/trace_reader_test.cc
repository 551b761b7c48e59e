// Finding the format, reading files in blocks, and the mistakes that have nothing to do with a
// format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "traces/open.h"
#include "traces/reader.h"

namespace schedtwin {
namespace {

using ::testing::HasSubstr;

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string Message(const absl::StatusOr<Trace>& trace) {
  EXPECT_FALSE(trace.ok());
  return std::string(trace.status().message());
}

TEST(TraceReader, FormatsHaveNamesThatCanBeTyped) {
  ASSERT_FALSE(TraceFormats().empty());
  for (const TraceFormat* format : TraceFormats()) {
    EXPECT_FALSE(format->name.empty());
    for (const char c : format->name)
      EXPECT_TRUE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_') << c;
    EXPECT_FALSE(format->summary.empty());
    EXPECT_FALSE(format->begins.empty());
    EXPECT_NE(format->detect, nullptr);
    EXPECT_NE(format->read, nullptr);
  }
}

TEST(TraceReader, NamesAMissingFileADirectoryAndAnEmptyFile) {
  const std::string missing = ::testing::TempDir() + "/no_such_trace.csv";
  EXPECT_EQ(Message(ReadTrace(missing)),
            "trace '" + missing +
                "' does not exist; check the path, or use a built-in trace such as "
                "synth:azure_conv");
  EXPECT_THAT(Message(ReadTrace(::testing::TempDir())),
              HasSubstr("is a directory; name a file inside it"));
  const std::string empty = WriteFile("trace_reader_empty.csv", "");
  EXPECT_THAT(
      Message(ReadTrace(empty)),
      HasSubstr(empty + ":1: the file is empty; expected one of: azure_llm_2024, azure_llm_2023"));
  EXPECT_THAT(Message(ReadTrace(empty, "azure_llm_2023")), HasSubstr(":1: the file is empty"));
}

TEST(TraceReader, NamesTheKnownFormats) {
  const std::string unknown = Message(ParseTrace("a,b,c\r\n1,2,3\r\n", "t.csv"));
  EXPECT_THAT(unknown, HasSubstr("t.csv:1: found 'a,b,c', which no known trace format begins with; "
                                 "expected one of: "));
  EXPECT_THAT(unknown, HasSubstr("; mend the header, or name the format with --format"));
  const std::string misspelt = Message(ParseTrace("a,b,c\n", "t.csv", "azure"));
  EXPECT_THAT(misspelt, HasSubstr("unknown trace format 'azure'; the formats are: "));
  for (const TraceFormat* format : TraceFormats()) {
    EXPECT_THAT(unknown, HasSubstr(std::string(format->name)));
    EXPECT_THAT(misspelt, HasSubstr(std::string(format->name)));
  }
  // A file without its header would lose its first row, or all, if it were read.
  EXPECT_THAT(Message(ParseTrace("2023-11-16 18:17:03.9799600,4808,10\n", "t.csv")),
              HasSubstr("t.csv:1: found '2023-11-16 18:17:03.9799600,4808,10', which no known"));
  EXPECT_THAT(Message(ParseTrace("\x1f\x8b\x08", "t.csv.gz")), HasSubstr("compressed with gzip"));
}

TEST(TraceReader, QuotesBinaryAndLongTextSafely) {
  EXPECT_THAT(Message(ParseTrace(std::string("\0\x01\x7f", 3), "t.csv")),
              HasSubstr("found '\\x00\\x01\\x7f'"));
  const std::string message = Message(ParseTrace(std::string(1'000'000, 'x'), "t.csv"));
  EXPECT_LT(message.size(), 600u);
  EXPECT_THAT(message, HasSubstr("xxx...'"));
}

// More rows than fit in one block, with lines of different lengths across its borders.
TEST(TraceReader, AFileInBlocksReadsLikeItsTextInMemory) {
  std::string text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n";
  for (int i = 0; i < 20'000; ++i) {
    std::string digits = std::to_string(1'000'000 + i).substr(1);
    text += "2023-11-16 18:17:0" + std::to_string(i / 4000) + "." + digits + "0," +
            std::to_string(1 + i * i % 99'991) + ",1\r\n";
  }
  text.resize(text.size() - 2);
  const absl::StatusOr<Trace> memory = ParseTrace(text, "t.csv");
  const absl::StatusOr<Trace> file = ReadTrace(WriteFile("trace_reader_blocks.csv", text));
  ASSERT_TRUE(memory.ok()) << memory.status();
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->rows.size(), 20'000u);
  for (std::size_t i = 0; i < file->rows.size(); ++i) {
    ASSERT_EQ(file->rows[i].arrival_ns, memory->rows[i].arrival_ns);
    ASSERT_EQ(file->rows[i].prompt_tokens, memory->rows[i].prompt_tokens);
  }
  EXPECT_EQ(file->provenance.content_hash, memory->provenance.content_hash);
  EXPECT_EQ(file->provenance.source_bytes, text.size());
}

TEST(TraceReader, ALineLongerThanABlockIsReadAndOneWithoutEndIsRefused) {
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  EXPECT_THAT(
      Message(ReadTrace(WriteFile("trace_reader_long.csv", header + std::string(300'000, '1')))),
      HasSubstr(":2: found 1 column in '1111"));
  EXPECT_THAT(Message(ReadTrace(
                  WriteFile("trace_reader_endless.csv", header + std::string(70u << 20, '1')))),
              HasSubstr(":2: the line is longer than 64 MiB"));
}

TEST(OpenTrace, TakesFilesAndGenerators) {
  const std::string path =
      WriteFile("open_trace.csv",
                "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n");
  const auto file = OpenTrace({.spec = path});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->provenance.format, "azure_llm_2023");
  const auto synth = OpenTrace({.spec = "synth:poisson:count=5", .seed = 3});
  ASSERT_TRUE(synth.ok()) << synth.status();
  EXPECT_EQ((*synth)->rows.size(), 5u);
  EXPECT_TRUE((*synth)->provenance.synthetic());
}

TEST(OpenTrace, NamesWhatIsWrong) {
  EXPECT_THAT(std::string(OpenTrace({}).status().message()), HasSubstr("no trace is named"));
  EXPECT_EQ(
      std::string(OpenTrace({.spec = "synth:poisson", .format = "mooncake"}).status().message()),
      "format 'mooncake' is for files, and synth:poisson is made here; leave the format out");
}

}  // namespace
}  // namespace schedtwin
