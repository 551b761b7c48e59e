// What is read of a library's file before it is loaded: the right object, and never beyond the
// file, whatever bytes it holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "experiments/library_file.h"
#include "policies/api/rng.h"

namespace schedtwin {
namespace {

constexpr std::string_view kSymbol = "schedtwin_policy_v1";

std::string Library() {
  const auto bytes = ReadLibraryFile(PLUGIN_FOLDER "/libplugin_typed.so");
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return *bytes;
}

// That the view lies within its bytes.
void ExpectInside(const std::string& bytes, std::string_view part) {
  EXPECT_GE(part.data(), bytes.data());
  EXPECT_LE(part.data() + part.size(), bytes.data() + bytes.size());
}

TEST(LibraryFile, FindsTheExportedObject) {
  const std::string bytes = Library();
  const auto found = ExportedObject(bytes, kSymbol);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->starts_with("schedtwinpolicy"));
  ExpectInside(bytes, *found);
}

TEST(LibraryFile, TellsWhatIsNotThere) {
  const std::string bytes = Library();
  EXPECT_TRUE(absl::IsNotFound(ExportedObject(bytes, "schedtwin_policy_v2").status()));
  EXPECT_TRUE(absl::IsNotFound(ExportedObject(bytes, "schedtwin_policy_v").status()));
  EXPECT_TRUE(absl::IsNotFound(ReadLibraryFile("./none.so").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadLibraryFile("/tmp").status()));
  for (const std::string_view text : {"", "\x7f", "\x7f\x45LF", "#!/bin/sh\nexit 0\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ExportedObject(text, kSymbol).status()));
  }
}

TEST(LibraryFile, ACutOffLibraryIsRefused) {
  const std::string bytes = Library();
  for (std::size_t size = 0; size < bytes.size(); size += 37) {
    const std::string cut = bytes.substr(0, size);  // a copy, so that sanitizers see its end
    EXPECT_TRUE(absl::IsInvalidArgument(ExportedObject(cut, kSymbol).status())) << size;
  }
}

TEST(LibraryFile, AnyBytesAreSafe) {
  const std::string bytes = Library();
  Rng rng(1, "library_file");
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string garbled = bytes;
    const std::size_t end = i % 2 == 0 ? 1024 : bytes.size();
    for (int k = 0; k < 8; ++k) {
      garbled[rng.Below(static_cast<std::uint32_t>(end))] = static_cast<char>(rng.Below(256));
    }
    const auto found = ExportedObject(garbled, kSymbol);
    if (found.ok()) {
      ExpectInside(garbled, *found);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1'000);
}

}  // namespace
}  // namespace schedtwin
