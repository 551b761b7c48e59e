// Batcher: what goes into the next step of a device: who is admitted, and how much of a prompt is
// computed at once. The policy around it keeps queue, memory and preemption, and asks at each step
// boundary. Its answers must follow from what it is asked alone: then a plan of many decode steps,
// which does not ask, does what as many plans of one step do.
#ifndef SCHEDTWIN_POLICIES_PARTS_BATCHER_H_
#define SCHEDTWIN_POLICIES_PARTS_BATCHER_H_

#include <cstdint>

namespace schedtwin {

/// The step as it is put together so far. Those who decode are in it.
struct StepDraft {
  std::uint32_t max_tokens = 0xffffffffu;  ///< that the device takes in one step
  std::uint32_t decodes = 0;               ///< requests that decode, one token each
  std::uint32_t prompt_tokens = 0;
  std::uint32_t running = 0;   ///< requests admitted and not over, all told
  std::uint32_t admitted = 0;  ///< of these, into this very step

  std::uint32_t tokens() const { return decodes + prompt_tokens; }
};

class Batcher {
 public:
  virtual ~Batcher() = default;
  /// True if the head of the queue may be admitted into the step. If not, nobody behind it is.
  virtual bool Admits(const StepDraft& step) const = 0;
  /// How many of the `left` tokens of a prompt the step computes; 0: none of it, nor of anyone
  /// behind it. At most `left`, and no more than the device takes.
  virtual std::uint32_t PromptTokens(const StepDraft& step, std::uint32_t left) const = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_BATCHER_H_
