// The CPU kernels alone and the forward passes made of them: what one core does in a second. Models
// have random weights and real shapes.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/cpu/decoder.h"
#include "kernels/cpu/encoder.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/random_weights.h"
#include "kernels/model_shapes.h"

namespace schedtwin {
namespace {

constexpr std::uint32_t kBlockTokens = 16;

/// The library prints "/s" behind a rate, so that a counter is named by what is counted.
benchmark::Counter Rate(double count) {
  return {count, benchmark::Counter::kIsIterationInvariantRate};
}

std::vector<float> Random(std::uint64_t size, std::uint64_t tensor) {
  std::vector<float> values(size);
  FillNormal(1, tensor, 0, 1, values);
  return values;
}

LinearBackendKind Backend(const benchmark::State& state, int argument) {
  return state.range(argument) != 0 ? LinearBackendKind::kOneDnn : LinearBackendKind::kPlain;
}

bool Lacks(benchmark::State& state, LinearBackendKind backend) {
  if (backend != LinearBackendKind::kOneDnn || HasOneDnn()) return false;
  state.SkipWithError("this build has no oneDNN");
  return true;
}

void BM_KernelLinear(benchmark::State& state) {
  const auto rows = static_cast<std::uint32_t>(state.range(1));
  const auto n = static_cast<std::uint32_t>(state.range(2));
  const auto k = static_cast<std::uint32_t>(state.range(3));
  if (Lacks(state, Backend(state, 0))) return;
  const auto backend = MakeLinearBackend(Backend(state, 0));
  const auto linear = backend->Pack(n, k, Random(std::uint64_t{n} * k, 0).data());
  linear->Prepare(rows);
  const std::vector<float> x = Random(std::uint64_t{PaddedRows(rows)} * k, 1);
  std::vector<float> y(std::uint64_t{PaddedRows(rows)} * n);
  for (auto _ : state) {
    linear->Run(x.data(), rows, y.data());
    benchmark::ClobberMemory();
  }
  state.counters["FLOP"] = Rate(2.0 * rows * n * k);
  state.SetLabel(backend->name());
}
BENCHMARK(BM_KernelLinear)
    ->ArgNames({"onednn", "rows", "n", "k"})
    ->ArgsProduct({{0, 1}, {8, 64, 512}, {1536}, {288}})
    ->ArgsProduct({{0, 1}, {8, 64}, {32000}, {288}})
    ->ArgsProduct({{0, 1}, {8, 64, 512}, {2048}, {2048}});

// count = 1: a decode; else a prefill chunk. Head width 48 as llama-15m, 64 as llama-110m and
// llama-1b.
void BM_KernelAttention(benchmark::State& state) {
  const auto context = static_cast<std::uint32_t>(state.range(0));
  const auto count = static_cast<std::uint32_t>(state.range(1));
  const auto heads = static_cast<std::uint32_t>(state.range(2));
  const auto kv_heads = static_cast<std::uint32_t>(state.range(3));
  const AttentionShape shape{heads, kv_heads, static_cast<std::uint32_t>(state.range(4)),
                             kBlockTokens};
  const std::uint32_t blocks = (context + count + kBlockTokens - 1) / kBlockTokens;
  std::vector<std::uint32_t> table(blocks);
  std::iota(table.rbegin(), table.rend(), 0);
  const std::vector<float> keys = Random(blocks * shape.block_floats(), 0);
  const std::vector<float> values = Random(blocks * shape.block_floats(), 1);
  const std::vector<float> qkv =
      Random(std::uint64_t{count} * (heads + 2 * kv_heads) * shape.head_dim, 2);
  std::vector<float> out(std::uint64_t{count} * heads * shape.head_dim);
  const AttentionChunk chunk{table.data(), context, count};
  for (auto _ : state) {
    Kernels().attend(shape, chunk, true, qkv.data(), keys.data(), values.data(), out.data());
    benchmark::ClobberMemory();
  }
  const double seen = count * (context + (count + 1) / 2.0);
  state.counters["FLOP"] = Rate(4.0 * heads * shape.head_dim * seen);
  state.SetLabel(Kernels().isa);
}
BENCHMARK(BM_KernelAttention)
    ->ArgNames({"context", "count", "heads", "kv_heads", "width"})
    ->Args({499, 1, 6, 6, 48})
    ->Args({499, 1, 12, 12, 64})
    ->Args({499, 1, 32, 4, 64})
    ->Args({0, 512, 6, 6, 48})
    ->Args({512, 512, 12, 12, 64});

// Tokens of llama-15m made in a second by decoding a batch at context 256.
void BM_KernelDecode(benchmark::State& state) {
  constexpr std::uint32_t kContext = 256, kBlocks = kContext / kBlockTokens + 1;
  const auto batch = static_cast<std::uint32_t>(state.range(1));
  if (Lacks(state, Backend(state, 0))) return;
  CpuDecoder decoder(*FindModelShape("llama-15m"), {.kv_blocks = batch * kBlocks,
                                                    .block_tokens = kBlockTokens,
                                                    .reserve_tokens = kContext,
                                                    .backend = Backend(state, 0)});
  std::vector<std::uint32_t> blocks(std::size_t{batch} * kBlocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::vector<std::int32_t> tokens(kContext, 7), sampled(batch, 1);
  std::vector<DecoderSequence> decodes;
  for (std::uint32_t i = 0; i < batch; ++i) {
    const std::uint32_t* table = blocks.data() + std::size_t{i} * kBlocks;
    const DecoderSequence prefill{tokens.data(), kContext, 0, table, false};
    decoder.Forward({&prefill, 1}, 0, nullptr);
    decodes.push_back({&sampled[i], 1, kContext, table, true});
  }
  for (auto _ : state) decoder.Forward(decodes, 0, sampled.data());
  state.counters["tokens"] = Rate(batch);
  state.SetLabel(decoder.backend_name());
}
BENCHMARK(BM_KernelDecode)
    ->ArgNames({"onednn", "batch"})
    ->ArgsProduct({{0, 1}, {1, 8, 64}})
    ->Unit(benchmark::kMicrosecond);

void BM_KernelPrefill(benchmark::State& state) {
  const auto count = static_cast<std::uint32_t>(state.range(1));
  if (Lacks(state, Backend(state, 0))) return;
  const std::uint32_t block_count = (count + kBlockTokens - 1) / kBlockTokens;
  CpuDecoder decoder(*FindModelShape("llama-15m"), {.kv_blocks = block_count,
                                                    .block_tokens = kBlockTokens,
                                                    .reserve_tokens = count,
                                                    .backend = Backend(state, 0)});
  std::vector<std::uint32_t> blocks(block_count);
  std::iota(blocks.begin(), blocks.end(), 0);
  const std::vector<std::int32_t> tokens(count, 7);
  std::int32_t sampled = 0;
  const DecoderSequence prefill{tokens.data(), count, 0, blocks.data(), true};
  for (auto _ : state) decoder.Forward({&prefill, 1}, 0, &sampled);
  state.counters["tokens"] = Rate(count);
  state.SetLabel(decoder.backend_name());
}
BENCHMARK(BM_KernelPrefill)
    ->ArgNames({"onednn", "tokens"})
    ->ArgsProduct({{0, 1}, {512}})
    ->Unit(benchmark::kMicrosecond);

void BM_KernelEncode(benchmark::State& state) {
  constexpr std::uint32_t kTokens = 128;
  const auto units = static_cast<std::uint32_t>(state.range(1));
  if (Lacks(state, Backend(state, 0))) return;
  const ModelShape& shape = *FindModelShape("encoder-mini");
  CpuEncoder encoder(shape, kTokens, units, 1, Backend(state, 0));
  const std::vector<std::int32_t> tokens(std::size_t{units} * kTokens, 7);
  std::vector<float> pooled(std::size_t{units} * shape.dim);
  for (auto _ : state) encoder.Forward(tokens.data(), units, pooled.data());
  state.counters["units"] = Rate(units);
  state.SetLabel(encoder.backend_name());
}
BENCHMARK(BM_KernelEncode)
    ->ArgNames({"onednn", "units"})
    ->ArgsProduct({{0, 1}, {1, 8}})
    ->Unit(benchmark::kMicrosecond);

// The start of a model: weights drawn and packed, every shape prepared.
void BM_KernelStart(benchmark::State& state) {
  if (Lacks(state, Backend(state, 0))) return;
  for (auto _ : state) {
    const CpuDecoder decoder(*FindModelShape("llama-15m"),
                             {.kv_blocks = 64, .backend = Backend(state, 0)});
    benchmark::DoNotOptimize(&decoder);
  }
}
BENCHMARK(BM_KernelStart)->ArgName("onednn")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace schedtwin
