// Recorder: what a run tells the outside. The runtime emits plain records; experiments keep them in
// memory, or writes them to SQLite in batches. Append-only, in the order things happened, called
// from the policy thread. Nothing is recorded per token: a step is one record, and a request's
// token times follow from the steps of its device between its first and last token.
#ifndef SCHEDTWIN_POLICIES_API_RECORDER_H_
#define SCHEDTWIN_POLICIES_API_RECORDER_H_

#include <cstdint>
#include <string_view>

#include "policies/api/ids.h"
#include "policies/api/source.h"
#include "policies/api/time.h"

namespace schedtwin {

/// One request, once, when it ends. Times are absolute; Time::Infinite() where there was none.
struct RequestRecord {
  RequestId id;
  EndReason reason = EndReason::kCompleted;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;  ///< made, not asked for
  std::uint32_t units = 0;
  std::uint32_t tenant = 0;
  std::uint32_t request_class = 0;
  std::int32_t priority = 0;
  std::uint32_t preemptions = 0;
  std::uint32_t recomputed_tokens = 0;  ///< tokens whose KV was computed again after a preemption
  std::uint32_t cached_tokens = 0;      ///< of the prompt, found in the prefix cache
  ModelId model = {0};                  ///< that served it
  DeviceId device;                      ///< the last device it ran on
  Time arrival;                         ///< scheduled
  Time admitted =
      Time::Infinite();  ///< seen by the policy (exec: arrival plus the generator's lateness)
  Time first_start = Time::Infinite();  ///< start of the first step that worked on it
  Time first_token = Time::Infinite();  ///< end of the step that made it
  Time last_token = Time::Infinite();
  Time end;
};

/// One step of a plan, once, when it ends.
struct StepRecord {
  DeviceId device;
  PlanId plan;
  std::uint32_t step = 0;  ///< index in its plan
  Time start;
  Time end;
  std::uint32_t decode_tokens = 0;  ///< one per decoding request
  std::uint32_t prefill_tokens = 0;
  std::uint32_t prefill_requests = 0;
  std::uint32_t units = 0;                  ///< one-shot models
  std::uint64_t decode_context_tokens = 0;  ///< sum of contexts that the decodes attended to
  std::uint32_t free_blocks = 0;            ///< at the end of the step
  std::int64_t predicted_ns = -1;           ///< -1: none
  std::int64_t compute_ns = -1;             ///< thread CPU time; -1: none (sim)
  /// What the decision took that launched the step's plan: of its first step; -1: of a later one,
  /// or not measured.
  std::int64_t decision_ns = -1;
};

/// One transfer, swap, load or unload, once, when it ends.
struct OperationRecord {
  OpId id;
  std::uint8_t kind = 0;  ///< OperationKind
  RequestId request;
  ModelId model;
  DeviceId from;
  DeviceId to;
  std::uint64_t bytes = 0;
  bool ok = false;
  Time asked;
  Time start;
  Time end;
};

/// One word-line of the log: an event that was delivered, a decision, or the answer the world gave.
/// The same words feed the decision digest. `kind` and `code` are of runtime/journal.h.
struct LogRecord {
  std::uint64_t sequence = 0;
  Time time;
  std::uint8_t kind = 0;
  std::uint8_t code = 0;
  std::uint64_t a = 0, b = 0, c = 0;
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void OnRequest(const RequestRecord& record) = 0;
  virtual void OnStep(const StepRecord& record) = 0;
  virtual void OnOperation(const OperationRecord& record) { (void)record; }
  virtual void OnLog(const LogRecord& record) = 0;
  /// A policy's note: why it did what it did. Not part of any digest. `text` is valid for the call
  /// only.
  virtual void OnNote(Time time, std::string_view text) = 0;
};

/// What a recorder wants to be called for; the runtime skips the rest altogether.
struct RecordWants {
  bool steps = false;
  bool log = false;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_RECORDER_H_
