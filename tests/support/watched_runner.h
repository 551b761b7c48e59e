// WatchedRunner: the tiny decoder with an eye on it: what each request has made is kept beyond the
// runner's life, and each layer can be made to last, so that a test meets a step while it runs. It
// computes by plain loops, which give a row the same bits whatever else is in the step. Its
// worker's thread; many may share one WatchedTokens, which outlives them.
#ifndef SCHEDTWIN_TESTS_SUPPORT_WATCHED_RUNNER_H_
#define SCHEDTWIN_TESTS_SUPPORT_WATCHED_RUNNER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "exec/decoder_runner.h"
#include "kernels/model_shapes.h"

namespace schedtwin {

using MadeByRequest = std::map<std::uint32_t, std::vector<std::int32_t>>;

/// What requests have made, wherever that was.
class WatchedTokens {
 public:
  /// A device that a request has left knows the beginning only: the longest counts.
  void Keep(std::uint32_t request, const std::vector<std::int32_t>& made) {
    const std::lock_guard lock(mutex_);
    std::vector<std::int32_t>& kept = made_[request];
    if (made.size() > kept.size()) kept = made;
  }
  /// When the workers have ended.
  const MadeByRequest& made() const { return made_; }

 private:
  std::mutex mutex_;
  MadeByRequest made_;
};

class WatchedRunner final : public StepRunner {
 public:
  WatchedRunner(const ModelShape& shape, const DeviceInfo& info, std::uint64_t seed,
                Duration layer_pause, WatchedTokens* tokens)
      : runner_(shape, info, seed, LinearBackendKind::kPlain),
        layer_pause_(layer_pause),
        tokens_(tokens) {}
  ~WatchedRunner() override {
    for (const std::uint32_t request : ran_) Keep(request);
  }

  DeviceInfo info() const override { return runner_.info(); }
  bool Load(StopCheck stop) override { return runner_.Load(stop); }
  void Unload() override { runner_.Unload(); }
  void Take(const DeviceCommand& command) override {
    const bool runs = command.kind == CommandKind::kEntry || command.kind == CommandKind::kJoin;
    if (runs) ran_.insert(command.request);
    if (command.kind == CommandKind::kEnd && ran_.erase(command.request) > 0) Keep(command.request);
    runner_.Take(command);
  }
  bool RunStep(const DeviceCommand& step, StopCheck stop) override {
    stop_ = stop;
    return runner_.RunStep(step, {&PauseAndAsk, this});
  }
  KvHolder* kv() override { return runner_.kv(); }

 private:
  void Keep(std::uint32_t request) { tokens_->Keep(request, runner_.made(request)); }
  static bool PauseAndAsk(const void* context) {
    const auto& self = *static_cast<const WatchedRunner*>(context);
    if (self.layer_pause_ > Duration()) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(self.layer_pause_.ns()));
    }
    return self.stop_();
  }

  DecoderRunner runner_;
  Duration layer_pause_;
  WatchedTokens* tokens_;
  StopCheck stop_;
  std::set<std::uint32_t> ran_;  ///< and have not ended
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_WATCHED_RUNNER_H_
