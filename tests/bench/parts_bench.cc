// The parts that every step or request passes through: KV books, digests, step times, traces.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "policies/profile/profile.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/digest.h"
#include "policies/runtime/kv_pool.h"
#include "policies/runtime/request_text.h"
#include "tests/support/data.h"
#include "traces/open.h"
#include "traces/reader.h"
#include "traces/source.h"

namespace schedtwin {
namespace {

// 64 requests take 20 blocks each and give them back while a step is in flight: a take, a give and
// a fence each. `books`: counted, with a number for every block, found by text (though none has
// one).
void BM_KvPool(benchmark::State& state) {
  constexpr std::uint32_t kRequests = 64, kBlocks = 20;
  KvPool pool(kRequests * kBlocks, 16, static_cast<KvBooks>(state.range(0)));
  for (auto _ : state) {
    for (std::uint32_t id = 0; id < kRequests; ++id) pool.Take(id, kBlocks);
    pool.OnStepSubmitted();
    for (std::uint32_t id = 0; id < kRequests; ++id) pool.Give(id, kBlocks);
    pool.OnStepEnded();
    if (pool.free_blocks() != kRequests * kBlocks) return state.SkipWithError("blocks are lost");
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kRequests);
}
BENCHMARK(BM_KvPool)->ArgName("books")->Arg(0)->Arg(1)->Arg(2);

// Names for the blocks of a prompt of 4096 tokens, 16 in a block, and finding them all: what a
// request pays once, and what each query for it does. `find`: only the latter.
void BM_PrefixHashes(benchmark::State& state) {
  constexpr std::uint32_t kTokens = 4096, kBlockTokens = 16, kBlocks = kTokens / kBlockTokens;
  const ContentSegment content[] = {{1, 1000}, {2, 3096}};
  RequestSpec spec;
  spec.prompt_tokens = kTokens;
  spec.content = content;
  RequestText text;
  text.Reset(1, spec, false);
  KvPool pool(kBlocks, kBlockTokens, KvBooks::kCached);
  pool.Take(1, kBlocks);
  pool.Name(1, text.Hashes(kTokens, kBlockTokens, {0}));
  for (auto _ : state) {
    if (state.range(0) == 0) text.Reset(1, spec, false);
    const auto hashes = text.Hashes(kTokens, kBlockTokens, {0});
    if (pool.cache()->Find(hashes, 0, nullptr).blocks != kBlocks) {
      return state.SkipWithError("blocks are not found");
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kBlocks);
}
BENCHMARK(BM_PrefixHashes)->ArgName("find")->Arg(0)->Arg(1);

// A line of the journal is a few words: 1024 words at a time, and the value once.
void BM_DigestWords(benchmark::State& state) {
  constexpr std::int64_t kWords = 1024;
  for (auto _ : state) {
    WordDigest digest;
    for (std::uint64_t word = 0; word < kWords; ++word) digest.Add(word);
    benchmark::DoNotOptimize(digest.value());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kWords);
}
BENCHMARK(BM_DigestWords);

void BM_HashRequest(benchmark::State& state) {
  std::uint64_t word = 0;
  for (auto _ : state) benchmark::DoNotOptimize(HashWords({++word, 1, 2, 3, 4, 5, 6, 7}));
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(BM_HashRequest);

void BM_PredictDecode(benchmark::State& state) {
  const auto profile = LoadProfile("llama3-8b-a100");
  if (!profile.ok()) return state.SkipWithError("no profile");
  const StepTimeModel model(*profile);
  std::uint32_t decodes = 0;
  for (auto _ : state) {
    decodes = decodes % 128 + 1;
    benchmark::DoNotOptimize(model.PredictDecode(decodes, 1000 * decodes));
  }
}
BENCHMARK(BM_PredictDecode);

// Text in memory: parsing without the disk.
void BM_TraceRead(benchmark::State& state) {
  const std::string path = AzureConvFile();
  if (!std::filesystem::exists(path)) return state.SkipWithError("the real trace is not here");
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::size_t rows = 0;
  for (auto _ : state) {
    const auto trace = ParseTrace(text.str(), path);
    if (!trace.ok()) return state.SkipWithError("cannot be read");
    rows = trace->rows.size();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * rows));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.str().size()));
}
BENCHMARK(BM_TraceRead)->Unit(benchmark::kMillisecond);

void BM_TraceSynth(benchmark::State& state) {
  std::size_t rows = 0;
  for (auto _ : state) {
    const auto trace = OpenTrace({.spec = "synth:azure_conv"});
    if (!trace.ok()) return state.SkipWithError("cannot be made");
    rows = (*trace)->rows.size();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * rows));
}
BENCHMARK(BM_TraceSynth)->Unit(benchmark::kMillisecond);

// What a run pays to pull its requests; scaled: by 1.1 in rate and in length.
void BM_TraceSource(benchmark::State& state) {
  const auto trace = OpenTrace({.spec = "synth:azure_conv"});
  if (!trace.ok()) return state.SkipWithError("no trace");
  TraceSourceOptions view;
  if (state.range(0) != 0) {
    view.rate_scale = {11, 10};
    view.length_scale = {11, 10};
  }
  std::int64_t pulled = 0;
  for (auto _ : state) {
    const auto source = TraceSource::Create(*trace, view);
    if (!source.ok()) return state.SkipWithError("no source");
    RequestSpec spec;
    while ((*source)->Next(&spec) == Pull::kRequest) {
      benchmark::DoNotOptimize(spec);
      ++pulled;
    }
  }
  state.SetItemsProcessed(pulled);
}
BENCHMARK(BM_TraceSource)->ArgName("scaled")->Arg(0)->Arg(1);

}  // namespace
}  // namespace schedtwin
