#include "exec/encoder_runner.h"

#include <cstddef>

#include "exec/token_ids.h"

namespace schedtwin {

EncoderRunner::EncoderRunner(const ModelShape& shape, const DeviceInfo& info, std::uint64_t seed)
    : info_(info),
      vocab_(shape.vocab),
      model_(shape, kSequenceTokens, info.max_step_tokens, seed),
      pooled_(std::size_t{info.max_step_tokens} * shape.dim) {
  tokens_.reserve(std::size_t{info.max_step_tokens} * kSequenceTokens);
}

void EncoderRunner::Take(const DeviceCommand& command) {
  if (command.kind == CommandKind::kEntry) AddUnits(command.request, command.tokens);
}

void EncoderRunner::AddUnits(std::uint32_t request, std::uint32_t units) {
  for (std::uint32_t i = 0; i < units * kSequenceTokens; ++i) {
    tokens_.push_back(PromptToken(request, i, vocab_));
  }
}

void EncoderRunner::RunStep(const DeviceCommand& step) {
  AddUnits(RequestId::kNone, step.tokens);  // padding: computed and thrown away
  model_.Forward(tokens_.data(), static_cast<std::uint32_t>(tokens_.size() / kSequenceTokens),
                 pooled_.data());
  tokens_.clear();
}

}  // namespace schedtwin
