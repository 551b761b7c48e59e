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
  std::ostringstream path, text;
  path << SCHEDTWIN_SOURCE_DIR << "/policies/" << info.name << "/README.md";
  text << std::ifstream(path.str()).rdbuf();
  return text.str();
}

TEST(PolicyReadme, HasItsSections) {
  for (const PolicyInfo* info : Policies()) {
    SCOPED_TRACE(info->name);
    const std::string readme = Readme(*info);
    std::ostringstream title;
    title << "# " << info->name << "\n";
    EXPECT_TRUE(readme.starts_with(title.str()));
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
      std::ostringstream row;
      row << "\n| `" << spec.name << "` | `" << spec.default_text << "` | ";
      EXPECT_THAT(readme, HasSubstr(row.str()));
    }
  }
}

}  // namespace
}  // namespace schedtwin
