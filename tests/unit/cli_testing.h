// Runs the real program as a user does, in a folder of its own, and keeps what it printed. Included
// by tests/unit/cli_*_test.cc, which pass SCHEDTWIN_BINARY.
#ifndef SCHEDTWIN_TESTS_UNIT_CLI_TESTING_H_
#define SCHEDTWIN_TESTS_UNIT_CLI_TESTING_H_

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace schedtwin {

struct Outcome {
  int status = -1;  ///< exit status; 128 + the signal for a killed program
  std::string out, err;

  nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, false); }
  std::ptrdiff_t err_lines() const { return std::count(err.begin(), err.end(), '\n'); }
};

class Program {
 public:
  explicit Program(std::string binary) : binary_(std::move(binary)) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "." + test->name();
    std::replace(name.begin(), name.end(), '/', '_');
    folder_ = std::filesystem::path(testing::TempDir()) / "schedtwin" /
              (name + "." + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Program() { std::filesystem::remove_all(folder_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string Path(const std::string& name) const { return folder_ / name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }
  bool Exists(const std::string& name) const { return std::filesystem::exists(Path(name)); }

  /// The program may use no more than `most` of a resource, such as RLIMIT_FSIZE, from now on.
  void Limit(int resource, rlim_t most) { limits_.emplace_back(resource, most); }
  void LiftLimits() { limits_.clear(); }

  /// Starts the program in its folder; its output goes to files there.
  pid_t Start(const std::vector<std::string>& args) const {
    const pid_t child = fork();
    if (child != 0) return child;
    const auto redirect = [&](const char* name, int to) {
      dup2(open(Path(name).c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644), to);
    };
    redirect("stdout", STDOUT_FILENO);
    redirect("stderr", STDERR_FILENO);
    if (chdir(folder_.c_str()) != 0) _exit(127);
    signal(SIGXFSZ, SIG_IGN);  // a file too large is an error like a full disk, not the end
    for (const auto& [resource, most] : limits_) {
      const rlimit limit = {most, most};
      setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
    }
    std::vector<char*> argv = {const_cast<char*>(binary_.c_str())};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    execv(binary_.c_str(), argv.data());
    _exit(127);
  }
  Outcome Wait(pid_t child) const {
    int status = 0;
    waitpid(child, &status, 0);
    Outcome out;
    out.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    out.out = Read("stdout");
    out.err = Read("stderr");
    return out;
  }
  Outcome Run(const std::vector<std::string>& args) const { return Wait(Start(args)); }

 private:
  std::string Read(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }

  std::string binary_;
  std::filesystem::path folder_;
  std::vector<std::pair<int, rlim_t>> limits_;
};

inline std::vector<std::string> With(std::vector<std::string> args,
                                     const std::vector<std::string>& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

/// Runs a command that must succeed and print one JSON object.
inline nlohmann::json MustRun(const Program& program, const std::vector<std::string>& args) {
  const Outcome outcome = program.Run(args);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_FALSE(outcome.json().is_discarded()) << outcome.out;
  return outcome.json();
}

/// A command line that is wrong, and what the program must say of it.
struct Mistake {
  const char* name;
  std::vector<std::string> args;
  const char* says;
};

inline void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

/// One line on standard error, exit status 2, nothing written.
inline void ExpectMistakeIsTold(const Program& program, const Mistake& mistake) {
  const Outcome outcome = program.Run(mistake.args);
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_THAT(outcome.err, testing::StartsWith("schedtwin: error: "));
  EXPECT_THAT(outcome.err, testing::HasSubstr(mistake.says));
  EXPECT_FALSE(program.Exists("schedtwin.db")) << "nothing may be written";
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_UNIT_CLI_TESTING_H_
