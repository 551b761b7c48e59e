// Holds the source tree to the dependency order and the bans of docs/design.md (section 2). All
// targets share one include root, so the linker alone cannot. The checker is a pure function of
// (path, text); the last tests show that it catches what it is there to catch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace schedtwin {
namespace {

using Words = std::set<std::string, std::less<>>;

const std::map<std::string, Words, std::less<>> kMayInclude = {
    {"policies/api", {}},
    {"policies/profile", {"policies/api"}},
    {"policies/runtime", {"policies/api", "policies/profile"}},
    {"policies/parts", {"policies/api"}},
    {"kernels", {}},
    {"traces", {"policies/api"}},
    {"sim", {"policies/api", "policies/profile", "policies/runtime"}},
    {"exec", {"policies/api", "policies/profile", "policies/runtime", "kernels"}},
};
const Words kFolders = {"policies", "kernels",     "traces", "sim",
                        "exec",     "experiments", "tests",  "docs"};
const Words kTopLevelFiles = {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "dev"};

// What would make a run depend on the machine, the hour or the library: for exec, experiments,
// tests alone.
const Words kWorldHeaders = {"chrono", "thread", "mutex",  "shared_mutex", "condition_variable",
                             "random", "ctime",  "time.h", "future",       "sys/time.h"};
const Words kWorldCalls = {"getenv", "secure_getenv", "rand",         "srand",     "drand48",
                           "usleep", "nanosleep",     "gettimeofday", "localtime", "clock_gettime"};
const Words kWorldStd = {"chrono", "thread", "jthread", "this_thread", "mutex",        "async",
                         "time",   "clock",  "rand",    "getenv",      "random_device"};
// Their last bits differ between CPUs and libraries. (sqrt, floor, fma, frexp and the like are
// exact.)
const Words kTranscendentals = {"exp",   "exp2",  "expm1", "log",   "log2",   "log10", "log1p",
                                "pow",   "sin",   "cos",   "tan",   "asin",   "acos",  "atan",
                                "atan2", "sinh",  "cosh",  "tanh",  "cbrt",   "erf",   "erfc",
                                "hypot", "asinh", "acosh", "atanh", "tgamma", "lgamma"};

bool Has(const Words& words, std::string_view word) { return words.find(word) != words.end(); }

// The folder whose rules hold for `path`: the first component, the first two within policies.
std::string LayerOf(std::string_view path) {
  std::size_t end = path.find('/');
  if (path.substr(0, end) == "policies") {
    const std::size_t second = path.find('/', end + 1);
    if (second != std::string_view::npos) end = second;
  }
  return std::string(path.substr(0, end));
}

bool MayInclude(const std::string& from, const std::string& to) {
  if (from == to || from == "tests") return true;
  if (to == "tests") return false;
  if (from == "experiments") return true;
  if (const auto row = kMayInclude.find(from); row != kMayInclude.end())
    return Has(row->second, to);
  const bool to_policy = to.starts_with("policies/") && kMayInclude.count(to) == 0;
  if (from == "policies") return to == "policies/api" || to_policy;  // the registry
  return to == "policies/api" || to == "policies/profile" || to == "policies/parts";  // a policy
}

// Comments and literals blanked out, so that words in them count for nothing.
std::string CodeOf(std::string_view text) {
  std::string code(text);
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    if (text.substr(i, 2) == "//") {
      end = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      end = std::min(text.find("*/", i + 2), text.size());
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || std::isalnum(text[i - 1]) == 0))) {
      end = i + 1;
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') {
        end += text[end] == '\\' ? 2 : 1;
      }
      ++end;
    }
    for (std::size_t k = i; k < std::min(end, text.size()); ++k) {
      if (code[k] != '\n') code[k] = ' ';
    }
    i = std::max(end, i + 1);
  }
  return code;
}

// Checks one file's text against the rules for its path; gathers one line per violation.
class Checker {
 public:
  Checker(std::string_view path, std::string_view text) : path_(path), layer_(LayerOf(path)) {
    free_ = layer_ == "exec" || layer_ == "experiments" || layer_ == "tests";
    header_ = path.ends_with(".h") || path.ends_with(".cuh");
    std::istringstream raw{std::string(text)};
    std::istringstream code{CodeOf(text)};
    std::string code_line;
    for (std::string line; std::getline(raw, line) && std::getline(code, code_line);) {
      ++line_;
      CheckInclude(line);
      CheckWords(code_line);
    }
  }

  std::vector<std::string> violations;

 private:
  void Report(const std::string& what) {
    violations.push_back(std::string(path_) + ":" + std::to_string(line_) + ": " + what);
  }

  void CheckInclude(std::string_view line) {
    if (!line.starts_with("#include ")) return;
    line.remove_prefix(std::string_view("#include ").size());
    const std::size_t end = line.find_first_of("\">", 1);
    if (end == std::string_view::npos) return;
    const std::string name(line.substr(1, end - 1));
    const bool ours = line.front() == '"' && Has(kFolders, name.substr(0, name.find('/')));
    if (ours && !MayInclude(layer_, LayerOf(name))) Report(layer_ + " must not include " + name);
    if (line.front() == '"' && name.find('/') == std::string::npos) {
      Report("write \"" + name + "\" from the repository root");
    }
    if (!ours) CheckForeignInclude(name);
    const bool protobuf = name.ends_with(".pb.h") || name.starts_with("google/protobuf/");
    if (protobuf && header_ && !free_) Report("Protobuf stays out of headers: " + name);
  }

  void CheckForeignInclude(const std::string& name) {
    if (name == "format" || name == "ranges")
      Report("gcc 12 and clang 14 do not agree on <" + name + ">");
    if (!free_ && Has(kWorldHeaders, name))
      Report("<" + name + "> belongs to exec, experiments and tests");
    if (name == "sqlite3.h" && layer_ != "experiments" && layer_ != "tests") {
      Report("SQLite belongs to experiments");
    }
    const bool standard = name.find_first_of("./") == std::string::npos;
    const bool random = path_ == "policies/api/rng.h" && name.starts_with("Random123/");
    if (layer_ == "policies/api" && !standard && !random) Report("a plugin must not need " + name);
  }

  void CheckWords(std::string_view code) {
    if (free_) return;
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    for (std::size_t i = 0; i < code.size(); ++i) {
      if (!is_word(code[i])) continue;
      const std::size_t begin = i;
      while (i < code.size() && is_word(code[i])) ++i;
      CheckWord(code.substr(0, begin), code.substr(begin, i - begin), code.substr(i));
    }
  }

  // A call is `word(` with an argument, not a member; accessors named like a function stay free:
  // `log()`.
  void CheckWord(std::string_view before, std::string_view word, std::string_view after) {
    const bool in_std = before.ends_with("std::");
    const bool member =
        before.ends_with(".") || before.ends_with("->") || (before.ends_with("::") && !in_std);
    const bool call = !member && after.starts_with("(") && !after.starts_with("()");
    const bool world = (in_std && Has(kWorldStd, word)) ||
                       (!member && after.starts_with("(") && Has(kWorldCalls, word));
    if (world) Report(std::string(word) + " belongs to exec, experiments and tests");
    std::string_view name = word;
    if (!Has(kTranscendentals, name) && (name.ends_with("f") || name.ends_with("l")))
      name.remove_suffix(1);
    if (layer_ != "kernels" && (in_std || call) && Has(kTranscendentals, name)) {
      Report(std::string(word) + " from libm differs between machines");
    }
  }

  std::string_view path_;
  std::string layer_;
  bool free_ = false;
  bool header_ = false;
  int line_ = 0;
};

std::vector<std::string> Violations(std::string_view path, std::string_view text) {
  return Checker(path, text).violations;
}

// Dot files, builds and results (what .gitignore names) may lie anywhere.
bool TopLevelAllowed(std::string_view name) {
  return name.starts_with(".") || name == "build" || name == "compile_commands.json" ||
         name.find(".db") != std::string_view::npos || Has(kFolders, name) ||
         Has(kTopLevelFiles, name);
}

TEST(Tree, HasOnlyTheTopLevelEntriesOfTheDesign) {
  for (const auto& entry : std::filesystem::directory_iterator(SCHEDTWIN_SOURCE_DIR)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(TopLevelAllowed(name))
        << name << " is no top-level entry of docs/design.md, section 2";
  }
}

TEST(Tree, KeepsTheDependencyOrderAndTheBans) {
  const std::filesystem::path root = SCHEDTWIN_SOURCE_DIR;
  const Words extensions = {".h", ".cc", ".cu", ".cuh"};
  int files = 0;
  for (const std::string& folder : kFolders) {
    if (!std::filesystem::exists(root / folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!Has(extensions, entry.path().extension().string())) continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      const std::string path = entry.path().lexically_relative(root).generic_string();
      EXPECT_THAT(Violations(path, text.str()), testing::IsEmpty());
      ++files;
    }
  }
  EXPECT_GT(files, 0);
}

struct Case {
  const char* path;
  const char* text;
};

TEST(TreeChecker, CatchesEachViolation) {
  const Case cases[] = {
      {"policies/api/clock.h", "#include \"policies/profile/profile.h\"\n"},
      {"policies/api/clock.h", "#include \"absl/status/status.h\"\n"},
      {"policies/api/clock.cc", "#include <google/protobuf/message.h>\n"},
      {"policies/api/clock.h", "#include <Random123/philox.h>\n"},
      {"policies/profile/profile.cc", "#include \"policies/runtime/loop.h\"\n"},
      {"policies/profile/profile.h", "#include \"policies/profile/profile.pb.h\"\n"},
      {"policies/runtime/loop.cc", "#include \"policies/fifo/fifo.h\"\n"},
      {"policies/parts/router.h", "#include \"policies/profile/profile.h\"\n"},
      {"policies/fifo/fifo.cc", "#include \"policies/immediate/immediate.h\"\n"},
      {"policies/fifo/fifo.cc", "#include \"policies/runtime/loop.h\"\n"},
      {"policies/fifo/fifo.cc", "#include \"policies/registry.h\"\n"},
      {"policies/fifo/fifo.cc", "#include \"fifo.h\"\n"},
      {"policies/registry.cc", "#include \"policies/runtime/loop.h\"\n"},
      {"traces/azure.cc", "#include \"policies/runtime/loop.h\"\n"},
      {"sim/world.cc", "#include \"exec/world.h\"\n"},
      {"exec/world.cc", "#include \"sim/world.h\"\n"},
      {"kernels/cpu.cc", "#include \"policies/api/time.h\"\n"},
      {"experiments/main.cc", "#include \"tests/support/fakes.h\"\n"},
      {"experiments/main.cc", "#include <format>\n"},
      {"exec/store.cc", "#include <sqlite3.h>\n"},
      {"sim/world.cc", "#include <chrono>\n"},
      {"sim/world.cc", "const char* home = std::getenv(name);\n"},
      {"sim/world.cc", "int x = rand();\n"},
      {"traces/synth.cc", "double y = std::exp(x);\n"},
      {"policies/profile/profile.cc", "double y = powf(x, 2);\n"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Violations(c.path, c.text).size(), 1u) << c.path << ": " << c.text;
  }
  EXPECT_THAT(
      Violations("sim/world.cc", "\n\n#include <mutex>\n"),
      testing::ElementsAre("sim/world.cc:3: <mutex> belongs to exec, experiments and tests"));
  EXPECT_FALSE(TopLevelAllowed("common"));
}

TEST(TreeChecker, LetsTheAllowedPass) {
  const Case cases[] = {
      {"policies/api/rng.h", "#include <Random123/philox.h>\n#include <cstdint>\n"},
      {"policies/fifo/fifo.cc",
       "#include \"policies/profile/profile.h\"\n#include \"policies/parts/router.h\"\n"},
      {"policies/registry.cc", "#include \"policies/fifo/fifo.h\"\n"},
      {"policies/profile/profile.cc", "#include \"policies/profile/profile.pb.h\"\n"},
      {"sim/world.cc", "#include \"policies/runtime/loop.h\"\n#include \"absl/status/status.h\"\n"},
      {"sim/world.cc", "// std::chrono and rand() are banned\nconst char* s = \"std::exp(1)\";\n"},
      {"sim/world.cc",
       "const Log& log() const; /* rand()\n getenv() */ run.log(x); FixedLog(x); std::sqrt(x);\n"},
      {"exec/clock.cc", "#include <chrono>\nauto t = std::chrono::steady_clock::now();\n"},
      {"experiments/store.cc", "#include <sqlite3.h>\n#include \"sim/world.h\"\n"},
      {"tests/unit/a_test.cc",
       "#include \"experiments/store.h\"\n#include \"tests/support/fakes.h\"\n"},
  };
  for (const Case& c : cases) EXPECT_THAT(Violations(c.path, c.text), testing::IsEmpty()) << c.path;
  EXPECT_TRUE(TopLevelAllowed("policies") && TopLevelAllowed("schedtwin.db-wal") &&
              TopLevelAllowed(".ci"));
}

}  // namespace
}  // namespace schedtwin
