// DecoderRunner: a decoder model on the CPU behind StepRunner: keeps of each request its block
// table, its text and the tokens it has made, turns a step's entries and the standing set into one
// forward pass, and feeds back in what was sampled; of an output that has a name, what the name
// says it is, so that later prompts have the same text. Used on one thread, its worker's, but for
// what other devices' workers read of it when they copy its KV.
#ifndef SCHEDTWIN_EXEC_DECODER_RUNNER_H_
#define SCHEDTWIN_EXEC_DECODER_RUNNER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "exec/step_runner.h"
#include "kernels/cpu/decoder.h"
#include "kernels/model_shapes.h"

namespace schedtwin {

class DecoderRunner final : public StepRunner, private KvHolder {
 public:
  /// REQUIRES: `info` is of a decoder with KV blocks.
  DecoderRunner(const ModelShape& shape, const DeviceInfo& info, std::uint64_t seed,
                LinearBackendKind backend = DefaultLinearBackend());

  DeviceInfo info() const override { return info_; }
  bool Load(StopCheck stop) override;
  void Unload() override { model_.reset(); }
  void Take(const DeviceCommand& command) override;
  bool RunStep(const DeviceCommand& step, StopCheck stop) override;
  KvHolder* kv() override { return this; }

  /// The tokens that a request has made so far; empty if it is not known. For tests.
  const std::vector<std::int32_t>& made(std::uint32_t request) { return sequences_[request].made; }

 private:
  struct Stretch {
    std::uint32_t position;
    std::uint32_t tokens;
    std::uint64_t content;
  };
  struct Sequence {
    std::vector<std::uint32_t> blocks;
    std::vector<Stretch> text;  ///< that has a name, in order of position
    std::vector<std::int32_t> made;
    std::uint32_t first_made = 0;      ///< position of made[0]
    std::uint32_t context_tokens = 0;  ///< of a member
  };
  /// One sequence of the step that is being put together.
  struct Part {
    Sequence* sequence;
    std::uint32_t context_tokens;
    std::uint32_t tokens;
    bool samples;
    bool member = false;
  };

  const KvArena* arena(Tier tier) const override;
  MadeTokens made_tokens(std::uint32_t request) const override;
  bool Copy(const KvCopy& copy, StopCheck stop) override;
  KvArena* MakeArena(Tier tier);

  void AddPart(std::uint32_t request, const Part& part);
  std::int32_t TokenAt(std::uint32_t request, const Sequence& sequence,
                       std::uint32_t position) const;
  void FeedBack();

  ModelShape shape_;
  DeviceInfo info_;
  std::uint32_t vocab_;
  std::uint64_t seed_;
  LinearBackendKind backend_;
  /// Held by the worker while it writes what other workers may read: the two that follow. Its own
  /// reads need no lock.
  mutable std::mutex mutex_;
  absl::node_hash_map<std::uint32_t, Sequence> sequences_;  // a sequence stays where it is
  std::unique_ptr<KvArena> arenas_[2];                      ///< by tier
  std::unique_ptr<CpuDecoder> model_;                       ///< null: not loaded
  std::vector<std::uint32_t> members_;
  std::vector<DeviceCommand> entries_;

  // Of the step, kept for their memory.
  std::vector<Part> parts_;
  std::vector<std::int32_t> tokens_;
  std::vector<DecoderSequence> inputs_;
  std::vector<std::int32_t> sampled_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_DECODER_RUNNER_H_
