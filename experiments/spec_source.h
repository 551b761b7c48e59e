// SpecSource: the requests of a RunSpec as a run replays them, counted where someone watches how
// far the run is. Shared by simulated and real runs. Policy thread of one run; the count is read
// elsewhere.
#ifndef SCHEDTWIN_EXPERIMENTS_SPEC_SOURCE_H_
#define SCHEDTWIN_EXPERIMENTS_SPEC_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "experiments/run_spec.h"
#include "policies/api/source.h"
#include "traces/source.h"

namespace schedtwin {

class CountedSource final : public RequestSource {
 public:
  /// Both outlive this.
  CountedSource(RequestSource* source, std::atomic<std::uint64_t>* count)
      : source_(source), count_(count) {}

  Pull Next(RequestSpec* out) override {
    const Pull pull = source_->Next(out);
    if (pull == Pull::kRequest) count_->fetch_add(1, std::memory_order_relaxed);
    return pull;
  }
  void OnRequestEnd(std::uint64_t index, EndReason reason, Time now) override {
    source_->OnRequestEnd(index, reason, now);
  }

 private:
  RequestSource* source_;
  std::atomic<std::uint64_t>* count_;
};

class SpecSource {
 public:
  /// `count` outlives this; null: nobody watches, and a request costs no call more. Fails when the
  /// trace's view is empty or too long.
  static absl::StatusOr<SpecSource> Open(const RunSpec& spec, std::atomic<std::uint64_t>* count) {
    absl::StatusOr<std::unique_ptr<TraceSource>> trace = TraceSource::Create(spec.trace, spec.view);
    if (!trace.ok()) return trace.status();
    SpecSource out;
    out.trace_ = *std::move(trace);
    if (count != nullptr) out.counted_.emplace(out.trace_.get(), count);
    return out;
  }

  RequestSource* get() {
    return counted_.has_value() ? static_cast<RequestSource*>(&*counted_) : trace_.get();
  }

 private:
  std::unique_ptr<TraceSource> trace_;
  std::optional<CountedSource> counted_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_SPEC_SOURCE_H_
