// Policies from shared libraries, by the real program: a plugin is what the compiled-in policy is
// in every command, and whatever is wrong with a library is told before it is run. Libraries that
// must be refused are built here, by the compiler that built the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/cli_testing.h"

namespace schedtwin {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// ./fifo.so, ./typed.so: copies, so that tests can alter them.
void Bring(const Program& program, const std::string& name) {
  std::filesystem::copy_file(PLUGIN_FOLDER "/libplugin_" + name, program.Path(name));
}

// Builds ./made.so from source text.
void Build(const Program& program, const std::string& source, const std::string& flags = "",
           const std::string& compiler = PLUGIN_COMPILER) {
  const std::string file = program.Write("made.cc", source);
  const std::string command = compiler + " " PLUGIN_BUILD " " + flags + " -o " +
                              program.Path("made.so") + " " + file + " 2>" + program.Path("log");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

// A sound policy, after these lines of its own.
std::string Source(const std::string& before = "") {
  return "#include \"policies/api/plugin.h\"\n" + before +
         "const schedtwin::PolicyInfo kInfo = {\n"
         "    .name = \"made\", .decoder = true, .create = [](const schedtwin::Parameters&) {\n"
         "      return std::make_unique<schedtwin::Policy>(); }};\n"
         "SCHEDTWIN_EXPORT_POLICY(kInfo);\n";
}

// Replaces the first `from` in a file by as many bytes.
void Patch(const std::string& path, const std::string& from, const std::string& to) {
  ASSERT_EQ(from.size(), to.size());
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::size_t at = bytes.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  std::ofstream(path, std::ios::binary) << bytes.replace(at, from.size(), to);
}

void ExpectRefused(const Program& program, const std::string& library, const char* says) {
  ExpectMistakeIsTold(program, {"", {"sim", "--limit", "5", "--policy", library}, says});
  const Outcome shown = program.Run({"policies", library});
  EXPECT_EQ(shown.status, 2);
  EXPECT_EQ(shown.out, "");
  EXPECT_EQ(shown.err_lines(), 1) << shown.err;
  EXPECT_THAT(shown.err,
              AllOf(HasSubstr("policies: policy library '" + library + "' "), HasSubstr(says)));
}

TEST(CliPlugin, DoesWhatTheCompiledInPolicyDoes) {
  const Program program(SCHEDTWIN_BINARY);
  Bring(program, "fifo.so");
  const std::vector<std::string> args = {"sim", "--limit", "200", "--devices", "2", "--json"};
  const json ours = MustRun(program, With(args, {"--policy", "fifo"}));
  const json theirs = MustRun(program, With(args, {"--policy", "./fifo.so"}));
  EXPECT_EQ(theirs["policy"], "fifo");
  EXPECT_EQ(theirs["completed"], ours["completed"]);
  EXPECT_EQ(theirs["outcome_digest"], ours["outcome_digest"]);
  EXPECT_EQ(theirs["decision_digest"], ours["decision_digest"]);
  EXPECT_TRUE(ours["policy_library"].is_null());
  EXPECT_EQ(theirs["policy_library"]["file"], "./fifo.so");
  const json compared = MustRun(program, {"compare", "1", "2", "--json"});
  ASSERT_EQ(compared["differing"].size(), 1u) << compared["differing"];
  EXPECT_EQ(compared["differing"][0]["name"], "policy_library_hash");
  EXPECT_EQ(compared["differing"][0]["b"], theirs["policy_library"]["hash"]);
  EXPECT_EQ(MustRun(program, {"db", "show", "2", "--json"})["policy_library"],
            theirs["policy_library"]);
  EXPECT_EQ(program.Run({"db", "check"}).status, 0);
}

TEST(CliPlugin, IsAnAxisOfASweep) {
  const Program program(SCHEDTWIN_BINARY);
  Bring(program, "fifo.so");
  MustRun(program, {"sweep", "--limit", "50", "--policy", "./fifo.so,fifo", "--set",
                    "policy.plan_steps=1,64", "--jobs", "2", "--json"});
  const json runs = MustRun(program, {"db", "list", "--json"})["runs"];
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[0]["decision_digest"], runs[2]["decision_digest"]);
  EXPECT_EQ(runs[1]["decision_digest"], runs[3]["decision_digest"]);
  EXPECT_NE(runs[0]["decision_digest"], runs[1]["decision_digest"]);
}

TEST(CliPlugin, IsNamedInAnExperimentFile) {
  const Program program(SCHEDTWIN_BINARY);
  Bring(program, "fifo.so");
  program.Write("a.textproto",
                "trace { limit: 20 }\n"
                "policy { name: \"./fifo.so\" param { name: \"plan_steps\" value: \"3\" } }\n");
  const json run = MustRun(program, {"sim", "a.textproto", "--json"});
  EXPECT_EQ(run["policy_library"]["file"], "./fifo.so");
  EXPECT_EQ(run["parameters"]["plan_steps"], "3");
  // What is stored with the run is such a file, too.
  const std::string stored =
      MustRun(program, {"db", "show", "1", "--experiment", "--json"})["experiment"];
  program.Write("b.textproto", stored);
  const json again = MustRun(program, {"sim", "b.textproto", "--json"});
  EXPECT_EQ(again["decision_digest"], run["decision_digest"]);
}

TEST(CliPlugin, RunsForRealAndIsReplayed) {
  const Program program(SCHEDTWIN_BINARY);
  Bring(program, "fifo.so");
  const json run =
      MustRun(program, {"exec", "--policy", "./fifo.so", "--trace",
                        "synth:poisson:rate=20,count=12,prompt=20,output=6", "--json"});
  EXPECT_EQ(run["completed"], 12);
  const json replay = MustRun(program, {"replay", "latest", "--json"});
  EXPECT_EQ(replay["diverging"], 0);
  EXPECT_EQ(replay["digests_equal"], true);
}

TEST(CliPlugin, ReplayTellsOfALibraryThatChangedOrIsGone) {
  const Program program(SCHEDTWIN_BINARY);
  Bring(program, "fifo.so");
  MustRun(program, {"sim", "--limit", "20", "--record", "full", "--policy", "./fifo.so", "--json"});
  EXPECT_EQ(program.Run({"replay", "1"}).status, 0);
  std::filesystem::remove(program.Path("fifo.so"));
  Outcome outcome = program.Run({"replay", "1"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err_lines(), 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("policy library './fifo.so' does not exist"),
                                 HasSubstr("from the folder")));
  Bring(program, "fifo.so");
  std::ofstream(program.Path("fifo.so"), std::ios::app) << "x";  // loads all the same
  outcome = program.Run({"replay", "1"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err_lines(), 1);
  EXPECT_THAT(outcome.err, HasSubstr("policy library ./fifo.so has changed since (content hash "));
}

TEST(CliPlugin, ShowsItsParameters) {
  const Program program(SCHEDTWIN_BINARY);
  Bring(program, "typed.so");
  const json policies = MustRun(program, {"policies", "./typed.so", "--json"})["policies"];
  ASSERT_EQ(policies.size(), 1u);
  EXPECT_EQ(policies[0]["name"], "typed");
  const json& parameters = policies[0]["parameters"];
  ASSERT_EQ(parameters.size(), 7u);
  EXPECT_EQ(parameters[0]["type"], "integer");
  EXPECT_EQ(parameters[0]["max"], 64);
  EXPECT_EQ(parameters[0]["unit"], "requests");
  EXPECT_EQ(parameters[1]["type"], "flag");
  EXPECT_EQ(parameters[2]["default"], "10ms");
  EXPECT_EQ(parameters[3]["choices"], (json{"arrival", "length"}));
  EXPECT_EQ(parameters[4]["type"], "number");
  EXPECT_EQ(parameters[5]["type"], "integers");
  EXPECT_EQ(parameters[5]["min"], 1);
  EXPECT_EQ(parameters[6]["type"], "text");
  const Outcome text = program.Run({"policies", "./typed.so"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("1 to 64"), HasSubstr("waited for more"),
                              HasSubstr("N:N:..., each 1 to 64"), HasSubstr("text or @FILE")));
}

TEST(CliPlugin, ChecksWhatItsParametersAreSetTo) {
  const Program program(SCHEDTWIN_BINARY);
  Bring(program, "typed.so");
  const std::pair<const char*, const char*> mistakes[] = {
      {"policy.batch=65", "--set: parameter 'batch' cannot be '65'; it takes an integer from 1 to"},
      {"policy.delay=2s", "a duration with its unit"},
      {"policy.order=size", "it takes one of arrival length"},
      {"policy.greedy=1", "true or false"},
      {"policy.batc=3", "policy typed has no parameter 'batc'; did you mean 'batch'?"},
      {"policy.share=1.01", "it takes a number from 0 to 1"},
      {"policy.share=nan", "cannot be 'nan'"},
      {"policy.share=0.5x", "cannot be '0.5x'"},
      {"policy.share=", "a number"},
      {"policy.sizes=4:0", "it takes integers from 1 to 64, joined by ':', such as 4:8"},
      {"policy.sizes=4:", "cannot be '4:'"},
      {"policy.sizes=:4", "cannot be ':4'"},
      {"policy.sizes=4;8", "cannot be '4;8'"},
      {"policy.sizes=4:9", "policy typed: no size may be above batch; raise batch"},
      {"policy.config=nonsense", "policy typed: config says nonsense"},
      {"policy.config=@gone.txt", "parameter 'config': cannot read the file 'gone.txt'"},
      {"policy.config=@.", "parameter 'config': cannot read the file '.'"},
      {"policy.config=@large.txt", "the file 'large.txt' is larger than 1 MiB"},
      {"policy.config=@said.txt", "policy typed: config says nonsense"}};
  std::ofstream(program.Path("said.txt")) << "what\nnonsense\n";
  std::ofstream(program.Path("large.txt")) << std::string((1 << 20) + 1, 'x');
  for (const auto& [set, says] : mistakes) {
    ExpectMistakeIsTold(program, {"", {"sim", "--policy", "./typed.so", "--set", set}, says});
  }
}

TEST(CliPluginRefusal, FilesThatAreNoLibraries) {
  const Program program(SCHEDTWIN_BINARY);
  ExpectRefused(program, "./none.so", "does not exist");
  ExpectRefused(program, "./", "is no regular file");
  program.Write("text.so", "#!/bin/sh\n");
  ExpectRefused(program, "./text.so", "is no shared library (no ELF file)");
  Bring(program, "typed.so");
  std::filesystem::resize_file(program.Path("typed.so"), 5000);
  ExpectRefused(program, "./typed.so", "it was cut off");
  ExpectRefused(program, SCHEDTWIN_BINARY, "exports no schedtwin_policy_v1");
  ExpectMistakeIsTold(program,
                      {"", {"exec", "--policy", "./none.so"}, "--policy: policy library './none"});
  ExpectMistakeIsTold(program, {"", {"sweep", "--policy", "./none.so,fifo"}, "does not exist"});
  ExpectMistakeIsTold(
      program, {"", {"sim", "--policy", "./a.so,./b.so"}, "lists are for `schedtwin sweep`"});
}

TEST(CliPluginRefusal, GarbledDescriptors) {
  const Program program(SCHEDTWIN_BINARY);
  Bring(program, "typed.so");
  Patch(program.Path("typed.so"), "schedtwinpolicy", "schedtwin_polcy");
  ExpectRefused(program, "./typed.so", "its schedtwin_policy_v1 is garbled");
  Build(program,
        "extern \"C\" __attribute__((visibility(\"default\"))) int schedtwin_policy_v1 = 1;");
  ExpectRefused(program, "./made.so", "its schedtwin_policy_v1 is garbled");
}

TEST(CliPluginRefusal, OtherApiHeaders) {
  const Program program(SCHEDTWIN_BINARY);
  Bring(program, "typed.so");
  Patch(program.Path("typed.so"), "api headers=", "api_headers=");
  ExpectRefused(program, "./typed.so", "different: api headers (its: none, this program's: ");
  Build(program, Source(), "-USCHEDTWIN_API_HASH '-DSCHEDTWIN_API_HASH=\"0123\"'");
  ExpectRefused(program, "./made.so", "different: api headers (its: 0123, this program's: ");
  ExpectRefused(program, "./made.so", "find_package(schedtwin) of this very program");
}

// Nothing of such a library may run: its initializer would end the program.
TEST(CliPluginRefusal, HardeningAndStandard) {
  const Program program(SCHEDTWIN_BINARY);
  const std::string source = Source("#include <cstdlib>\nconst int kEnd = (std::_Exit(77), 0);\n");
  const std::pair<const char*, const char*> others[] = {
      {"-D_GLIBCXX_ASSERTIONS", "different: _GLIBCXX_ASSERTIONS (its: on, this program's: off)"},
      {"-D_GLIBCXX_DEBUG", "_GLIBCXX_DEBUG (its: on, this program's: off)"},
      {"-O1 -D_FORTIFY_SOURCE=2", "different: _FORTIFY_SOURCE (its: 2, this program's: off)"},
      {"-D_GLIBCXX_USE_CXX11_ABI=0", "different: standard library (its: libstdc++ "},
      {"-std=c++2b", "different: C++ standard (its: "}};
  for (const auto& [flags, says] : others) {
    Build(program, source, flags);
    ExpectRefused(program, "./made.so", says);
  }
}

// Loading such a library would end the program: the sanitizer's runtime must come first.
TEST(CliPluginRefusal, Sanitizers) {
  if (std::string(PLUGIN_BUILD).find("-fsanitize") != std::string::npos) {
    GTEST_SKIP() << "the program has sanitizers of its own";
  }
  const Program program(SCHEDTWIN_BINARY);
  Build(program, Source(), "-fsanitize=address");
  ExpectRefused(program, "./made.so", "different: sanitizers (its: address, this program's: none)");
}

TEST(CliPluginRefusal, AnotherCompiler) {
  const std::string clang = PLUGIN_CLANG, ours = PLUGIN_COMPILER;
  if (!std::filesystem::exists(clang)) GTEST_SKIP() << "there is no clang++-14";
  if (ours.find("clang") != std::string::npos) GTEST_SKIP() << "clang built the program";
  const Program program(SCHEDTWIN_BINARY);
  Build(program, Source(), "", clang);
  ExpectRefused(program, "./made.so", "different: compiler (its: clang 14.");
  ExpectRefused(program, "./made.so", "; build it with gcc ");
}

TEST(CliPluginRefusal, WhatTheLoaderDoesNotFind) {
  const Program program(SCHEDTWIN_BINARY);
  Build(program, Source("int Missing();\nint use() { return Missing(); }\n"
                        "int (*volatile kept)() = use;\n"));
  ExpectRefused(program, "./made.so", "cannot be loaded: ");
  ExpectRefused(program, "./made.so", "undefined symbol");
}

TEST(CliPluginRefusal, ADescriptorWithoutPolicyInfo) {
  const Program program(SCHEDTWIN_BINARY);
  Build(program,
        "#include \"policies/api/plugin.h\"\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) \n"
        "const schedtwin::PolicyDescriptor schedtwin_policy_v1;\n"
        "const schedtwin::PolicyDescriptor schedtwin_policy_v1 = {\n"
        "    SCHEDTWIN_POLICY_MAGIC, SCHEDTWIN_STAMP, nullptr};\n");
  ExpectRefused(program, "./made.so", "has no PolicyInfo");
}

struct BadInfo {
  const char* name;  ///< in tests/plugins/bad.cc
  const char* says;
};

void PrintTo(const BadInfo& bad, std::ostream* out) { *out << bad.name; }

class CliPluginInfo : public testing::TestWithParam<BadInfo> {};

TEST_P(CliPluginInfo, IsRefused) {
  const Program program(SCHEDTWIN_BINARY);
  Bring(program, "bad.so");
  ASSERT_EQ(setenv("SCHEDTWIN_BAD_PLUGIN", GetParam().name, 1), 0);
  ExpectRefused(program, "./bad.so", GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    All, CliPluginInfo,
    testing::Values(
        BadInfo{"EmptyName", "names its policy ''"},
        BadInfo{"UppercaseName", "names its policy 'Bad'; a name is lower case"},
        BadInfo{"NoCreate", "has no create() for policy bad"},
        BadInfo{"DrivesNothing", "says of policy bad that it drives no model"},
        BadInfo{"CreateGivesNull", "create() of bad gives null"},
        BadInfo{"TwoOfOneName", "declares parameter 'a' twice"},
        BadInfo{"ParameterWithoutName", "declares parameter '' wrongly: its name must be"},
        BadInfo{"ParameterCalledName", "declares parameter 'name' wrongly: its name must be"},
        BadInfo{"ParameterWithoutMeaning", "declares parameter 'a' wrongly: it has no meaning"},
        BadInfo{"DefaultOutOfRange",
                "default: parameter 'a' cannot be '9'; it takes an integer from 0 to 8"},
        BadInfo{"MinAboveMax", "its min is above its max"},
        BadInfo{"NoChoices", "it has no choices"},
        BadInfo{"NoType", "it has no type that this program knows"}),
    [](const testing::TestParamInfo<BadInfo>& bad) { return std::string(bad.param.name); });

}  // namespace
}  // namespace schedtwin
