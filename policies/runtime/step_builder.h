// StepBuilder: what a device's commands add up to: the shape of each step, which is all that its
// time depends on. Of the standing set it keeps the number of members and the sum of their
// contexts, so that a step costs O(entries). A simulated device takes its times from here, a real
// one its predictions.
//
// Owned by a device; no locks: used by the one thread that reads the device's commands.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_STEP_BUILDER_H_
#define SCHEDTWIN_POLICIES_RUNTIME_STEP_BUILDER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "policies/api/request.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/device_port.h"

namespace schedtwin {

class StepBuilder {
 public:
  explicit StepBuilder(ModelKind kind) : kind_(kind) {}

  /// Any command but a kStep; those that tell nothing of a step's time are passed over.
  void Take(const DeviceCommand& command) {
    switch (command.kind) {
      case CommandKind::kJoin:
        return Join(command);
      case CommandKind::kLeave:
        return Leave(command);
      case CommandKind::kEntry:
        return AddEntry(command);
      default:
        return;
    }
  }
  void Join(const DeviceCommand& command) {
    ++standing_;
    standing_context_tokens_ += command.context_tokens;
  }
  void Leave(const DeviceCommand& command) {
    --standing_;
    standing_context_tokens_ -= command.context_tokens;
  }
  void AddEntry(const DeviceCommand& command) {
    if (kind_ == ModelKind::kOneShot) {
      shape_.units += command.tokens;
    } else if (command.decode) {
      ++shape_.decode_tokens;
      shape_.decode_context_tokens += command.context_tokens + 1;
    } else {
      chunks_.push_back({command.tokens, command.context_tokens, command.samples});
    }
  }

  /// The shape of the step that `step`, a kStep, closes; the next one begins. Its chunks stay where
  /// they are until the step after it is closed.
  StepShape Close(const DeviceCommand& step) {
    StepShape shape = std::exchange(shape_, StepShape{});
    if (step.standing) {
      standing_context_tokens_ += standing_;  // each member's new token
      shape.decode_tokens += standing_;
      shape.decode_context_tokens += standing_context_tokens_;
    }
    shape.padding_tokens = step.tokens;
    closed_chunks_.swap(chunks_);
    chunks_.clear();
    shape.prefills = closed_chunks_;
    return shape;
  }

  /// Closes the step, and says how long it takes by `model`. Steps of the standing set alone, which
  /// most are, touch nothing but two numbers.
  Duration Predict(const DeviceCommand& step, const StepTimeModel& model) {
    if (step.entries == 0 && step.tokens == 0 && step.standing) {
      standing_context_tokens_ += standing_;
      return model.PredictDecode(standing_, standing_context_tokens_);
    }
    return model.Predict(Close(step));
  }

  std::uint32_t standing() const { return standing_; }

 private:
  ModelKind kind_;
  std::uint32_t standing_ = 0;
  std::uint64_t standing_context_tokens_ = 0;
  StepShape shape_;  ///< of the entries so far
  std::vector<PrefillChunk> chunks_;
  std::vector<PrefillChunk> closed_chunks_;  ///< of the step closed last
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_STEP_BUILDER_H_
