// Small fakes for tests of the runtime: sources of requests by list, a recorder that keeps
// everything, a time source that the test drives. Plain values or owned by the test; one thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_FAKES_H_
#define SCHEDTWIN_TESTS_SUPPORT_FAKES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/api/recorder.h"
#include "policies/api/source.h"
#include "policies/runtime/time_source.h"

namespace schedtwin {

/// A decoder request.
inline RequestSpec TokenRequest(std::int64_t arrival_ns, std::uint32_t prompt_tokens,
                                std::uint32_t output_tokens) {
  RequestSpec spec;
  spec.arrival = Time::Nanos(arrival_ns);
  spec.prompt_tokens = prompt_tokens;
  spec.output_tokens = output_tokens;
  return spec;
}

/// A one-shot request.
inline RequestSpec UnitRequest(std::int64_t arrival_ns, std::uint32_t units) {
  RequestSpec spec;
  spec.arrival = Time::Nanos(arrival_ns);
  spec.units = units;
  return spec;
}

/// Yields a list, and keeps how each of its requests ended.
class ListSource final : public RequestSource {
 public:
  struct End {
    std::uint64_t index;
    EndReason reason;
    Time time;
  };

  explicit ListSource(std::vector<RequestSpec> requests) : requests_(std::move(requests)) {}

  Pull Next(RequestSpec* out) override {
    if (next_ == requests_.size()) return Pull::kDry;
    *out = requests_[next_++];
    return Pull::kRequest;
  }
  void OnRequestEnd(std::uint64_t index, EndReason reason, Time now) override {
    ends.push_back({index, reason, now});
  }

  std::vector<End> ends;

 private:
  std::vector<RequestSpec> requests_;
  std::size_t next_ = 0;
};

/// A client that sends its next request `think` after the one before has ended.
class ClosedSource final : public RequestSource {
 public:
  ClosedSource(RequestSpec request, std::uint32_t count, Duration think)
      : request_(request), left_(count), think_(think) {}

  Pull Next(RequestSpec* out) override {
    if (left_ == 0) return Pull::kDry;
    if (waiting_) return Pull::kLater;
    waiting_ = true;
    --left_;
    *out = request_;
    return Pull::kRequest;
  }
  void OnRequestEnd(std::uint64_t, EndReason, Time now) override {
    waiting_ = false;
    request_.arrival = now + think_;
  }

 private:
  RequestSpec request_;
  std::uint32_t left_;
  Duration think_;
  bool waiting_ = false;
};

/// Keeps everything that a run tells.
class RecordingRecorder final : public Recorder {
 public:
  void OnRequest(const RequestRecord& record) override { requests.push_back(record); }
  void OnStep(const StepRecord& record) override { steps.push_back(record); }
  void OnOperation(const OperationRecord& record) override { operations.push_back(record); }
  void OnLog(const LogRecord& record) override { log.push_back(record); }
  void OnNote(Time, std::string_view text) override { notes.emplace_back(text); }

  /// The record of a request; null if it has not ended.
  const RequestRecord* Find(std::uint32_t id) const {
    for (const RequestRecord& record : requests) {
      if (record.id.value == id) return &record;
    }
    return nullptr;
  }

  std::vector<RequestRecord> requests;
  std::vector<StepRecord> steps;
  std::vector<OperationRecord> operations;
  std::vector<LogRecord> log;
  std::vector<std::string> notes;
};

/// Time as the test says: `advance` is asked for the next instant.
class ManualTimeSource final : public TimeSource {
 public:
  Time Advance(Time next) override { return advance(next); }
  bool MayWake() const override { return may_wake; }

  std::function<Time(Time)> advance = [](Time next) { return next; };
  bool may_wake = false;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_FAKES_H_
