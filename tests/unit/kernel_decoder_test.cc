// The decoder's forward pass against a reference in double precision, however a sequence is cut
// into steps, whatever else is in them, and wherever its blocks lie. Cache and scratch memory hold
// NaN at the start of each case, so that a read of what no step has written shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <new>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/decoder.h"
#include "kernels/model_shapes.h"
#include "tests/support/reference_decoder.h"
#include "tests/unit/kernel_testing.h"

namespace schedtwin {
namespace {

using reference::ReferenceDecoder;
using reference::RelativeError;

constexpr double kTolerance = 1e-4;

// name, decoder, dim, layers, heads, KV heads, ffn, vocabulary
constexpr ModelShape kTiny{"tiny", true, 32, 2, 2, 2, 64, 50};
constexpr ModelShape kShapes[] = {
    kTiny,
    {"grouped", true, 64, 2, 8, 2, 96, 41},
    {"one KV head", true, 48, 1, 6, 1, 40, 64},
    {"wide heads", true, 96, 2, 2, 1, 48, 33},
};

/// A decoder with its reference, and the sequences that a test runs on it.
class Bench {
 public:
  struct Sequence {
    std::vector<std::int32_t> tokens;
    std::vector<std::uint32_t> blocks;
  };

  Bench(const ModelShape& shape, LinearBackendKind backend, std::uint64_t seed,
        std::uint32_t block_tokens = 16, std::uint32_t kv_blocks = 200,
        std::uint32_t reserve_tokens = 64)
      : shape_(shape),
        reference(shape, seed),
        decoder(shape, {.kv_blocks = kv_blocks,
                        .block_tokens = block_tokens,
                        .reserve_tokens = reserve_tokens,
                        .seed = seed,
                        .backend = backend,
                        .keep_logits = true}),
        random_(static_cast<std::uint32_t>(seed)),
        block_tokens_(block_tokens),
        free_(kv_blocks) {
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), random_);
    decoder.FillWithNan();
  }

  /// Random tokens, in blocks scattered over the pool.
  Sequence Make(std::size_t tokens) {
    Sequence sequence{RandomTokens(random_, tokens, shape_.vocab), {}};
    for (std::size_t i = 0; i < tokens; i += block_tokens_) {
      sequence.blocks.push_back(free_.back());
      free_.pop_back();
    }
    return sequence;
  }

  static DecoderSequence Part(const Sequence& sequence, std::size_t from, std::size_t count,
                              bool sample = true) {
    return {sequence.tokens.data() + from, static_cast<std::uint32_t>(count),
            static_cast<std::uint32_t>(from), sequence.blocks.data(), sample};
  }

  /// Runs one step; the tokens that were sampled.
  std::vector<std::int32_t> Step(const std::vector<DecoderSequence>& parts,
                                 std::uint32_t padding = 0) {
    std::vector<std::int32_t> sampled(parts.size(), -1);
    decoder.Forward(parts, padding, sampled.data());
    return sampled;
  }

  std::vector<float> LogitsOf(std::size_t sample) const {
    const auto row = decoder.logits().subspan(sample * shape_.vocab, shape_.vocab);
    return {row.begin(), row.end()};
  }

  /// Against the reference's logits after the sequence's token `position`.
  double Error(const Sequence& sequence, std::size_t position, std::size_t sample = 0) const {
    return RelativeError(LogitsOf(sample), reference.Logits(sequence.tokens, position));
  }

 private:
  ModelShape shape_;

 public:
  const ReferenceDecoder reference;
  CpuDecoder decoder;

 private:
  std::mt19937 random_;
  std::uint32_t block_tokens_;
  std::vector<std::uint32_t> free_;
};

class KernelDecoder : public testing::TestWithParam<LinearBackendKind> {};
INSTANTIATE_TEST_SUITE_P(, KernelDecoder, testing::ValuesIn(LinearBackends()), BackendName);

TEST_P(KernelDecoder, PrefillAgreesWithTheReference) {
  std::uint64_t seed = 100;
  for (const ModelShape& shape : kShapes) {
    for (const std::uint32_t block_tokens : {8U, 16U, 40U}) {
      Bench bench(shape, GetParam(), ++seed, block_tokens);
      const auto sequence = bench.Make(43);
      bench.Step({Bench::Part(sequence, 0, 43)});
      EXPECT_LT(bench.Error(sequence, 42), kTolerance) << shape.name << " " << block_tokens;
    }
  }
}

TEST_P(KernelDecoder, ChunksAndDecodesAgreeWithOnePiece) {
  constexpr std::size_t kTokens = 60;
  const std::vector<std::size_t> cuts[] = {
      {60}, {30, 30}, {1, 59}, {59, 1}, {16, 16, 16, 12}, {7, 8, 9, 36}, {50, 1, 1, 1, 1, 6}};
  std::uint64_t seed = 200;
  for (const ModelShape& shape : kShapes) {
    Bench bench(shape, GetParam(), ++seed);
    for (const std::vector<std::size_t>& cut : cuts) {
      const auto sequence = bench.Make(kTokens);
      const auto expected = bench.reference.AllLogits(sequence.tokens);
      std::size_t done = 0;
      for (const std::size_t count : cut) {
        bench.Step({Bench::Part(sequence, done, count)});
        done += count;
        EXPECT_LT(RelativeError(bench.LogitsOf(0), expected[done - 1]), kTolerance)
            << shape.name << " at " << done;
      }
    }
  }
}

TEST_P(KernelDecoder, DecodesAfterAPrefillOneTokenAtATime) {
  Bench bench(kShapes[1], GetParam(), 300, 8);
  const auto sequence = bench.Make(40);
  const auto expected = bench.reference.AllLogits(sequence.tokens);
  bench.Step({Bench::Part(sequence, 0, 5)});
  for (std::size_t i = 5; i < 40; ++i) {
    const auto sampled = bench.Step({Bench::Part(sequence, i, 1)});
    const std::vector<float> logits = bench.LogitsOf(0);
    EXPECT_LT(RelativeError(logits, expected[i]), kTolerance) << i;
    EXPECT_EQ(sampled[0], std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
}

// Two decoders with the same history; what is decoded alone in one is decoded in company in the
// other.
TEST_P(KernelDecoder, AMixedStepEqualsEachAlone) {
  Bench mixed(kShapes[1], GetParam(), 400), alone(kShapes[1], GetParam(), 400);
  std::vector<Bench::Sequence> sequences;
  const std::size_t lengths[] = {33, 1, 17, 48, 16}, done[] = {32, 0, 9, 0, 15};
  for (const std::size_t length : lengths) {
    sequences.push_back(mixed.Make(length));
    alone.Make(length);  // the same blocks
  }
  std::vector<DecoderSequence> parts;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (Bench* bench : {&mixed, &alone}) {
      if (done[i] > 0) bench->Step({Bench::Part(sequences[i], 0, done[i], false)});
    }
    parts.push_back(Bench::Part(sequences[i], done[i], lengths[i] - done[i], i != 2));
  }
  const auto sampled = mixed.Step(parts, 3);
  std::size_t sample = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto token = alone.Step({parts[i]});
    if (!parts[i].sample) continue;
    ExpectSame(GetParam(), alone.LogitsOf(0), mixed.LogitsOf(sample));
    EXPECT_EQ(token[0], sampled[sample]);
    EXPECT_LT(mixed.Error(sequences[i], lengths[i] - 1, sample), kTolerance) << i;
    ++sample;
  }
  EXPECT_EQ(mixed.decoder.logits().size(), sample * kShapes[1].vocab);
}

TEST_P(KernelDecoder, EveryEdgeOfThePaddingAgrees) {
  const std::size_t counts[] = {1,  2,  7,   8,   9,   15,  16,  17,  31,  32,  33,  63, 64,
                                65, 71, 127, 128, 129, 255, 256, 257, 511, 512, 513, 520};
  Bench bench(kTiny, GetParam(), 500, 16, 400);
  const auto longest = bench.Make(520);
  const auto expected = bench.reference.AllLogits(longest.tokens);
  for (const std::size_t count : counts) {
    for (const std::uint32_t padding : {0U, 1U, 8U}) {
      bench.decoder.FillWithNan();
      bench.Step({Bench::Part(longest, 0, count)}, padding);
      EXPECT_LT(RelativeError(bench.LogitsOf(0), expected[count - 1]), kTolerance)
          << count << " and " << padding;
    }
  }
}

// Each row of a step that is all first tokens, and with it every edge of the LM head's pieces.
TEST_P(KernelDecoder, EveryBatchSizeAgrees) {
  Bench bench(kTiny, GetParam(), 600, 8, 600);
  std::map<std::int32_t, reference::Row> expected;
  std::vector<Bench::Sequence> sequences;
  std::vector<DecoderSequence> parts;
  for (int i = 0; i < 513; ++i) {
    sequences.push_back(bench.Make(1));
    const std::int32_t token = sequences.back().tokens[0];
    if (!expected.contains(token)) expected[token] = bench.reference.Logits({&token, 1}, 0);
  }
  for (const auto& sequence : sequences) parts.push_back(Bench::Part(sequence, 0, 1));
  for (const std::size_t count :
       {1U, 7U, 8U, 9U, 63U, 64U, 65U, 127U, 128U, 129U, 511U, 512U, 513U}) {
    bench.decoder.FillWithNan();
    bench.Step({parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count)});
    ASSERT_EQ(bench.decoder.logits().size(), count * kTiny.vocab);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_LT(RelativeError(bench.LogitsOf(i), expected[parts[i].tokens[0]]), kTolerance)
          << i << " of " << count;
    }
  }
}

TEST_P(KernelDecoder, RunsStepsThatNobodySamples) {
  Bench bench(kTiny, GetParam(), 700);
  const auto sequence = bench.Make(20);
  bench.decoder.Forward({}, 0, nullptr);
  bench.decoder.Forward({}, 5, nullptr);
  const DecoderSequence prefill = Bench::Part(sequence, 0, 12, false);
  bench.decoder.Forward({&prefill, 1}, 0, nullptr);
  EXPECT_TRUE(bench.decoder.logits().empty());
  bench.Step({Bench::Part(sequence, 12, 8)});
  EXPECT_LT(bench.Error(sequence, 19), kTolerance);
}

TEST_P(KernelDecoder, KeepsNoMoreLogitsThanAskedFor) {
  CpuDecoder decoder(kTiny, {.kv_blocks = 1, .reserve_tokens = 1, .backend = GetParam()});
  const std::vector<std::int32_t> tokens(3, 1);
  const std::uint32_t block = 0;
  const std::vector<DecoderSequence> parts(130, {tokens.data(), 3, 0, &block, true});
  std::vector<std::int32_t> sampled(130, -1);
  decoder.Forward(parts, 0, sampled.data());
  EXPECT_GE(sampled[0], 0);
  EXPECT_EQ(std::count(sampled.begin(), sampled.end(), sampled[0]), 130);
  EXPECT_THROW(decoder.logits(), std::invalid_argument);
}

TEST_P(KernelDecoder, IsCutBeforeAnyLayerAndGoesOnAsIfItHadNotBeen) {
  Bench bench(kTiny, GetParam(), 750), uncut(kTiny, GetParam(), 750);
  const auto sequence = bench.Make(20);
  ASSERT_EQ(sequence.tokens, uncut.Make(20).tokens);
  uncut.Step({Bench::Part(sequence, 0, 12)});
  uncut.Step({Bench::Part(sequence, 12, 8)});
  bench.Step({Bench::Part(sequence, 0, 12)});
  const DecoderSequence rest = Bench::Part(sequence, 12, 8);
  for (int layer = 0; layer <= static_cast<int>(kTiny.layers); ++layer) {  // the last: the LM head
    std::int32_t sampled = -1;
    StopAt stop{layer};
    EXPECT_FALSE(bench.decoder.Forward({&rest, 1}, 0, &sampled, stop.check()));
    EXPECT_EQ(stop.asked, layer + 1) << "it went on";
    EXPECT_EQ(sampled, -1);
  }
  StopAt never{1000};
  std::int32_t sampled = -1;
  EXPECT_TRUE(bench.decoder.Forward({&rest, 1}, 0, &sampled, never.check()));
  EXPECT_GE(sampled, 0);
  EXPECT_EQ(bench.LogitsOf(0), uncut.LogitsOf(0));
}

TEST_P(KernelDecoder, CanBeStoppedWhileItIsMade) {
  const DecoderOptions options{.kv_blocks = 1, .reserve_tokens = 1, .backend = GetParam()};
  StopAt never{1000};
  CpuDecoder whole(kTiny, options, never.check());
  for (int i = 0; i < never.asked; ++i) {
    StopAt stop{i};
    EXPECT_THROW(CpuDecoder(kTiny, options, stop.check()), MakingStopped) << i;
  }
  EXPECT_GT(never.asked, static_cast<int>(kTiny.layers));
}

TEST_P(KernelDecoder, AgreesAtARealShape) {
  const ModelShape& shape = *FindModelShape("llama-15m");
  Bench bench(shape, GetParam(), 800, 16, 4, 16);
  const auto sequence = bench.Make(13);
  bench.Step({Bench::Part(sequence, 0, 10, false)}, 2);
  const auto sampled = bench.Step({Bench::Part(sequence, 10, 3)});
  EXPECT_LT(bench.Error(sequence, 12), kTolerance);
  const auto expected = bench.reference.Logits(sequence.tokens, 12);
  EXPECT_EQ(sampled[0], std::max_element(expected.begin(), expected.end()) - expected.begin());
}

TEST(KernelDecoderMisuse, IsRefused) {
  const DecoderOptions options{.kv_blocks = 2, .block_tokens = 8, .reserve_tokens = 8};
  const auto make = [&](ModelShape shape) { CpuDecoder decoder(shape, options); };
  EXPECT_THROW(make(*FindModelShape("encoder-mini")), std::invalid_argument);
  EXPECT_THROW(make({"heads", true, 32, 1, 3, 3, 64, 50}), std::invalid_argument);
  EXPECT_THROW(make({"KV heads", true, 32, 1, 4, 3, 64, 50}), std::invalid_argument);
  EXPECT_THROW(make({"width", true, 32, 1, 8, 8, 64, 50}), std::invalid_argument);
  EXPECT_THROW(make({"ffn", true, 32, 1, 2, 2, 60, 50}), std::invalid_argument);
  EXPECT_THROW(make({"layers", true, 32, 0, 2, 2, 64, 50}), std::invalid_argument);
  EXPECT_THROW(CpuDecoder(kTiny, {.kv_blocks = 0}), std::invalid_argument);
  EXPECT_THROW(CpuDecoder(kTiny, {.kv_blocks = 2, .block_tokens = 12}), std::invalid_argument);
  EXPECT_THROW(CpuDecoder(kTiny, {.kv_blocks = 4294967295U, .block_tokens = 4294967288U}),
               std::bad_alloc);

  CpuDecoder decoder(kTiny, options);
  const std::int32_t tokens[] = {1, 50, -1};
  const std::uint32_t blocks[] = {0, 2};
  std::int32_t sampled = -1;
  const auto run = [&](DecoderSequence sequence) { decoder.Forward({&sequence, 1}, 0, &sampled); };
  EXPECT_THROW(run({tokens, 0, 0, blocks, true}), std::invalid_argument);
  EXPECT_THROW(run({tokens + 1, 1, 0, blocks, true}), std::invalid_argument);
  EXPECT_THROW(run({tokens + 2, 1, 0, blocks, true}), std::invalid_argument);
  EXPECT_THROW(run({tokens, 1, 8, blocks, true}), std::invalid_argument);
  EXPECT_EQ(sampled, -1);
  run({tokens, 1, 0, blocks, true});
  EXPECT_GE(sampled, 0);
}

}  // namespace
}  // namespace schedtwin
