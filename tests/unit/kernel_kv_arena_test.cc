// KV that was copied is as good as the KV that was computed: a sequence goes on in other blocks, or
// on another decoder with the same weights, and its logits are the same bit for bit.
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/decoder.h"
#include "kernels/cpu/kv_arena.h"
#include "tests/unit/kernel_testing.h"

namespace schedtwin {
namespace {

constexpr ModelShape kTiny{"tiny", true, 32, 2, 4, 2, 64, 50};
constexpr std::uint32_t kBlockTokens = 8;
constexpr std::uint32_t kTokens = 21;  // the last block is not full

class KernelKvArena : public testing::TestWithParam<LinearBackendKind> {
 protected:
  DecoderOptions OptionsOn(KvArena* kv) const {
    return {.block_tokens = kBlockTokens,
            .reserve_tokens = 32,
            .backend = GetParam(),
            .keep_logits = true,
            .kv = kv};
  }
  /// Logits after the tokens from `from` on, whose predecessors lie in `blocks`.
  static std::vector<float> Run(CpuDecoder& decoder, const std::vector<std::int32_t>& tokens,
                                std::uint32_t from, std::uint32_t count,
                                const std::vector<std::uint32_t>& blocks) {
    const DecoderSequence part{tokens.data() + from, count, from, blocks.data(), true};
    std::int32_t sampled = -1;
    decoder.Forward({&part, 1}, 0, &sampled);
    return {decoder.logits().begin(), decoder.logits().end()};
  }
};
INSTANTIATE_TEST_SUITE_P(, KernelKvArena, testing::ValuesIn(LinearBackends()), BackendName);

TEST_P(KernelKvArena, WhatIsCopiedIsAsGoodAsWhatWasComputed) {
  std::mt19937 random(31);
  const std::vector<std::int32_t> tokens = RandomTokens(random, kTokens, kTiny.vocab);
  const std::vector<std::int32_t> others = RandomTokens(random, kTokens, kTiny.vocab);
  KvArena here(kTiny, kBlockTokens, 8), host(kTiny, kBlockTokens, 4), there(kTiny, kBlockTokens, 6);
  for (KvArena* arena : {&here, &host, &there}) arena->FillWithNan();
  CpuDecoder decoder(kTiny, OptionsOn(&here)), peer(kTiny, OptionsOn(&there));
  const std::vector<std::uint32_t> first = {5, 0, 3}, on_host = {2, 3, 0}, back = {7, 1, 6},
                                   moved = {4, 5, 1};

  Run(decoder, tokens, 0, kTokens - 1, first);
  for (int i = 0; i < 3; ++i) host.CopyBlock(here, first[i], on_host[i]);
  for (int i = 0; i < 3; ++i) there.CopyBlock(host, on_host[i], moved[i]);
  const std::vector<float> stayed = Run(decoder, tokens, kTokens - 1, 1, first);
  Run(decoder, others, 0, kTokens, first);
  for (int i = 0; i < 3; ++i) here.CopyBlock(host, on_host[i], back[i]);
  EXPECT_EQ(Run(decoder, tokens, kTokens - 1, 1, back), stayed);
  EXPECT_EQ(Run(peer, tokens, kTokens - 1, 1, moved), stayed);
  EXPECT_NE(Run(decoder, tokens, kTokens - 1, 1, first), stayed) << "the others' KV lies there";
}

TEST_P(KernelKvArena, OutlivesTheWeights) {
  std::mt19937 random(32);
  const std::vector<std::int32_t> tokens = RandomTokens(random, kTokens, kTiny.vocab);
  KvArena arena(kTiny, kBlockTokens, 3);
  const std::vector<std::uint32_t> blocks = {2, 0, 1};
  std::vector<float> stayed;
  {
    CpuDecoder decoder(kTiny, OptionsOn(&arena));
    Run(decoder, tokens, 0, kTokens - 1, blocks);
    stayed = Run(decoder, tokens, kTokens - 1, 1, blocks);
  }
  CpuDecoder again(kTiny, OptionsOn(&arena));
  EXPECT_EQ(Run(again, tokens, kTokens - 1, 1, blocks), stayed);
}

TEST(KernelKvArenaMisuse, IsRefused) {
  KvArena arena(kTiny, kBlockTokens, 2);
  EXPECT_THROW(arena.CopyBlock(arena, 2, 0), std::invalid_argument);
  EXPECT_THROW(arena.CopyBlock(arena, 0, 2), std::invalid_argument);
  ModelShape deeper = kTiny;
  deeper.layers = 3;
  EXPECT_THROW(arena.CopyBlock(KvArena(deeper, kBlockTokens, 2), 0, 0), std::invalid_argument);
  EXPECT_THROW(arena.CopyBlock(KvArena(kTiny, 16, 2), 0, 0), std::invalid_argument);
  EXPECT_THROW(KvArena(kTiny, 4294967288U, 4294967295U), std::bad_alloc);
}

}  // namespace
}  // namespace schedtwin
