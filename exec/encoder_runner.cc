#include "exec/encoder_runner.h"

#include <cstddef>

#include "exec/token_ids.h"
#include "policies/runtime/check.h"

namespace schedtwin {

EncoderRunner::EncoderRunner(const ModelShape& shape, const DeviceInfo& info, std::uint64_t seed)
    : shape_(shape),
      info_(info),
      vocab_(shape.vocab),
      seed_(seed),
      pooled_(std::size_t{info.max_step_tokens} * shape.dim) {
  tokens_.reserve(std::size_t{info.max_step_tokens} * kSequenceTokens);
}

bool EncoderRunner::Load(StopCheck stop) {
  if (model_ != nullptr) return true;
  try {
    model_ = std::make_unique<CpuEncoder>(shape_, kSequenceTokens, info_.max_step_tokens, seed_,
                                          DefaultLinearBackend(), stop);
  } catch (const MakingStopped&) {
    return false;
  }
  return true;
}

void EncoderRunner::Take(const DeviceCommand& command) {
  if (command.kind == CommandKind::kEntry) AddUnits(command.request, command.tokens);
}

void EncoderRunner::AddUnits(std::uint32_t request, std::uint32_t units) {
  for (std::uint32_t i = 0; i < units * kSequenceTokens; ++i) {
    tokens_.push_back(PromptToken(request, i, vocab_));
  }
}

bool EncoderRunner::RunStep(const DeviceCommand& step, StopCheck stop) {
  SCHEDTWIN_CHECK(model_ != nullptr);
  AddUnits(RequestId::kNone, step.tokens);  // padding: computed and thrown away
  const auto units = static_cast<std::uint32_t>(tokens_.size() / kSequenceTokens);
  const bool whole = model_->Forward(tokens_.data(), units, pooled_.data(), stop);
  tokens_.clear();
  return whole;
}

}  // namespace schedtwin
