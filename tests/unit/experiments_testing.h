// What the tests of experiments share: records made by hand or at random, a run's provenance and
// outcome, and a folder of its own for each test's files. Included by
// tests/unit/experiments_*_test.cc only.
#ifndef SCHEDTWIN_TESTS_UNIT_EXPERIMENTS_TESTING_H_
#define SCHEDTWIN_TESTS_UNIT_EXPERIMENTS_TESTING_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "experiments/store/store.h"
#include "policies/api/recorder.h"
#include "policies/api/rng.h"

namespace schedtwin {

/// A fresh path in a folder of this test case and process; what an earlier run left there is
/// removed.
inline std::string TempPath(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string folder =
      std::string(test->test_suite_name()) + "." + test->name() + "." + std::to_string(getpid());
  for (char& c : folder) c = c == '/' ? '_' : c;
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "schedtwin" / folder;
  std::filesystem::create_directories(path);
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path / (name + suffix));
  return path / name;
}

inline RequestRecord DecoderRecord(std::uint32_t id, std::int64_t arrival, std::int64_t first_token,
                                   std::int64_t last_token, std::uint32_t output_tokens) {
  RequestRecord r;
  r.id = {id};
  r.device = {0};
  r.prompt_tokens = 10;
  r.output_tokens = output_tokens;
  r.arrival = r.admitted = r.first_start = Time::Nanos(arrival);
  r.first_token = Time::Nanos(first_token);
  r.last_token = r.end = Time::Nanos(last_token);
  return r;
}

inline RequestRecord OneShotRecord(std::uint32_t id, std::int64_t arrival, std::int64_t end) {
  RequestRecord r;
  r.id = {id};
  r.device = {0};
  r.units = 1;
  r.arrival = r.admitted = r.first_start = Time::Nanos(arrival);
  r.end = Time::Nanos(end);
  return r;
}

/// `count` requests of every kind and end, at random.
inline void RecordRandomRequests(std::uint64_t seed, std::uint32_t count, Recorder* recorder) {
  Rng rng(seed, "experiments_testing");
  std::int64_t arrival = 1'000;
  for (std::uint32_t id = 0; id < count; ++id) {
    arrival += rng.Below(2'000'000);
    const std::int64_t first = arrival + rng.Below(80'000'000);
    const std::uint32_t tokens = rng.Below(12);
    RequestRecord r =
        tokens == 0
            ? OneShotRecord(id, arrival, first)
            : DecoderRecord(id, arrival, first,
                            first + std::int64_t{tokens - 1} * rng.Below(6'000'000), tokens);
    if (tokens > 0 && rng.Below(2) == 0) r.cached_tokens = 8;
    if (rng.Below(10) == 0) r.reason = static_cast<EndReason>(1 + rng.Below(5));
    recorder->OnRequest(r);
  }
}

/// `count` steps and operations of every kind, some of the steps with a decision.
inline void RecordRandomSteps(std::uint64_t seed, std::uint32_t count, Recorder* recorder) {
  Rng rng(seed, "experiments_testing steps");
  std::int64_t now = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    StepRecord step;
    step.device = {0};
    step.start = Time::Nanos(now);
    step.end = Time::Nanos(now += 1 + rng.Below(1'000'000));
    if (rng.Below(3) > 0) step.decision_ns = rng.Below(90'000);
    recorder->OnStep(step);
    OperationRecord operation;
    operation.id = {i, 1};
    operation.kind = static_cast<std::uint8_t>(rng.Below(6));
    operation.bytes = rng.Below(1'000'000);
    operation.ok = rng.Below(4) > 0;
    operation.asked = operation.start = step.start;
    operation.end = step.end;
    recorder->OnOperation(operation);
  }
}

inline RunInfo TestRun() {
  RunInfo info;
  info.world = "sim";
  info.policy = "fifo";
  info.parameters = {{"max_batch", "1", true}};
  info.model = "resnet50";
  info.profile = "resnet50-t4";
  info.trace = "synth:poisson";
  info.trace_format = "synth";
  info.record = "requests";
  return info;
}

inline RunOutcome TestOutcome() {
  RunOutcome outcome;
  outcome.result = "finished";
  outcome.outcome_digest = "0123456789abcdef";
  outcome.decision_digest = "fedcba9876543210";
  return outcome;
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_UNIT_EXPERIMENTS_TESTING_H_
