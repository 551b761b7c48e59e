// Every policy explains itself: a README with source, semantics and known gaps, whose table of
// parameters is the one that the program parses settings by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "policies/registry.h"

namespace schedtwin {
namespace {

using ::testing::HasSubstr;

std::string Readme(const PolicyInfo& info) {
  const std::string path =
      std::string(SCHEDTWIN_SOURCE_DIR) + "/policies/" + std::string(info.name) + "/README.md";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(PolicyReadme, HasItsSections) {
  for (const PolicyInfo* info : Policies()) {
    SCOPED_TRACE(info->name);
    const std::string readme = Readme(*info);
    EXPECT_TRUE(readme.starts_with("# " + std::string(info->name) + "\n"));
    for (const char* section :
         {"**Source.**", "## Semantics", "## Parameters", "## Traps it honours", "## Known gaps"}) {
      EXPECT_THAT(readme, HasSubstr(section));
    }
  }
}

TEST(PolicyReadme, ListsEveryParameterWithItsDefaultAndNoOther) {
  for (const PolicyInfo* info : Policies()) {
    SCOPED_TRACE(info->name);
    const std::string readme = Readme(*info);
    std::size_t rows = 0;
    for (std::size_t at = 0; (at = readme.find("\n| `", at)) != std::string::npos; ++at) ++rows;
    EXPECT_EQ(rows, info->parameters.size());
    for (const ParameterSpec& spec : info->parameters) {
      EXPECT_THAT(readme, HasSubstr("\n| `" + std::string(spec.name) + "` | `" +
                                    std::string(spec.default_text) + "` | "));
    }
  }
}

}  // namespace
}  // namespace schedtwin
