// KvPool: no block is lost, made up or owned twice; what is given back while steps are in flight is
// not handed out before they have ended; undoing restores the very same blocks.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "policies/runtime/kv_pool.h"

namespace schedtwin {
namespace {

constexpr KvBooks kAllBooks[] = {KvBooks::kCounted, KvBooks::kIdentified, KvBooks::kCached};

std::vector<std::uint32_t> TableOf(const KvPool& pool, std::uint32_t request) {
  const auto table = pool.BlockTable(request);
  return {table.begin(), table.end()};
}

TEST(KvPool, CountsBlocksForTokens) {
  const KvPool pool(10, 16, KvBooks::kCounted);
  EXPECT_EQ(pool.BlocksFor(0), 0u);
  EXPECT_EQ(pool.BlocksFor(1), 1u);
  EXPECT_EQ(pool.BlocksFor(16), 1u);
  EXPECT_EQ(pool.BlocksFor(17), 2u);
  // The largest request that can be asked for must not wrap round to a small one.
  EXPECT_EQ(pool.BlocksFor(0xffffffffu), 0x10000000u);
  EXPECT_EQ(KvPool(0, 0, KvBooks::kCounted).BlocksFor(17), 0u) << "a model without KV";
}

TEST(KvPool, RefusesWhatIsNotThereAndChangesNothing) {
  for (const KvBooks books : kAllBooks) {
    KvPool pool(4, 16, books);
    EXPECT_TRUE(pool.Take(1, 3));
    EXPECT_FALSE(pool.Take(2, 2));
    EXPECT_EQ(pool.free_blocks(), 1u);
    EXPECT_TRUE(pool.BlockTable(2).empty());
    EXPECT_TRUE(pool.Take(2, 1));
    EXPECT_TRUE(pool.Take(3, 0));
    EXPECT_FALSE(pool.Take(3, 1));
  }
}

TEST(KvPool, GivesBackAtOnceWhenNothingIsInFlight) {
  for (const KvBooks books : kAllBooks) {
    KvPool pool(4, 16, books);
    pool.OnStepSubmitted();
    pool.OnStepEnded();
    ASSERT_TRUE(pool.Take(1, 4));
    pool.Give(1, 4);
    EXPECT_EQ(pool.free_blocks(), 4u);
    EXPECT_EQ(pool.fenced_blocks(), 0u);
    EXPECT_TRUE(pool.BlockTable(1).empty());
  }
}

TEST(KvPool, FencesUntilEveryStepSubmittedBeforeHasEnded) {
  for (const KvBooks books : kAllBooks) {
    KvPool pool(8, 16, books);
    ASSERT_TRUE(pool.Take(1, 3) && pool.Take(2, 4));
    pool.OnStepSubmitted();
    pool.OnStepSubmitted();
    pool.Give(1, 3);
    EXPECT_EQ(pool.free_blocks(), 1u);
    EXPECT_EQ(pool.fenced_blocks(), 3u);
    EXPECT_FALSE(pool.Take(3, 2)) << "only one block is not fenced";
    pool.OnStepSubmitted();  // after the release: does not hold it
    pool.Give(2, 4);
    pool.OnStepEnded();
    EXPECT_EQ(pool.free_blocks(), 1u) << "one of the two steps is still in flight";
    pool.OnStepEnded();
    EXPECT_EQ(pool.free_blocks(), 4u);
    EXPECT_EQ(pool.fenced_blocks(), 4u);
    pool.OnStepEnded();
    EXPECT_EQ(pool.free_blocks(), 8u);
    EXPECT_EQ(pool.fenced_blocks(), 0u);
  }
}

TEST(KvPool, TablesGrowAtTheEndAndKeepTheirOrder) {
  KvPool pool(8, 16, KvBooks::kIdentified);
  ASSERT_TRUE(pool.Take(1, 2));
  const std::vector<std::uint32_t> head = TableOf(pool, 1);
  ASSERT_TRUE(pool.Take(2, 1) && pool.Take(1, 2));
  const std::vector<std::uint32_t> table = TableOf(pool, 1);
  ASSERT_EQ(table.size(), 4u);
  EXPECT_EQ((std::vector<std::uint32_t>{table[0], table[1]}), head);
}

/// The books as anyone would keep them, and what must hold of the pool beside them.
class TwinPool {
 public:
  TwinPool(std::uint64_t seed, KvBooks books)
      : rng_(seed, "kv pool test"),
        identify_(books != KvBooks::kCounted),
        cached_(books == KvBooks::kCached),
        pool_(kTotal, 16, books) {}

  void Act() {
    switch (rng_.Below(identify_ ? 6 : 7)) {
      case 0:
      case 1:
        Take();
        return;
      case 2:
        Give();
        return;
      case 3:
        pool_.OnStepSubmitted();
        ++submitted_;
        return;
      case 4:
        EndStep();
        return;
      case 5:
        Transaction();
        return;
      case 6:
        if (const std::uint32_t some = rng_.Below(3); some <= pool_.free_blocks()) {
          pool_.TakeCounted(some);
          owned_[0] += some;
        }
        return;
    }
  }

  void Check() const {
    pool_.CheckInvariants();
    std::uint32_t owned = 0, fenced = 0;
    for (const auto& [request, blocks] : owned_) owned += blocks;
    for (const auto& [step, blocks] : fenced_) fenced += blocks;
    ASSERT_EQ(pool_.fenced_blocks(), fenced);
    ASSERT_EQ(pool_.free_blocks() + fenced + owned, kTotal);
    if (!identify_) return;
    std::set<std::uint32_t> named = fenced_ids_;
    for (const auto& [request, blocks] : owned_) {
      const std::vector<std::uint32_t> table = TableOf(pool_, request);
      ASSERT_EQ(table.size(), blocks);
      for (const std::uint32_t id : table) {
        ASSERT_LT(id, kTotal);
        ASSERT_TRUE(named.insert(id).second)
            << "block " << id << " is owned twice, or still fenced";
      }
    }
  }

 private:
  static constexpr std::uint32_t kTotal = 40;
  static constexpr std::uint32_t kRequests = 6;

  void Take() {
    const std::uint32_t request = rng_.Below(kRequests);
    const std::uint32_t blocks = rng_.Below(9);
    const bool fits = blocks <= pool_.free_blocks();
    ASSERT_EQ(pool_.Take(request, blocks), fits);
    if (fits) owned_[request] += blocks;
  }
  void Give() {
    const std::uint32_t request = rng_.Below(kRequests);
    const std::vector<std::uint32_t> table = TableOf(pool_, request);
    pool_.Give(request, owned_[request]);
    if (submitted_ > ended_) {
      fenced_.push_back({submitted_, owned_[request]});
      fenced_ids_.insert(table.begin(), table.end());
      fenced_tables_.push_back({submitted_, table});
    }
    owned_.erase(request);
  }
  void EndStep() {
    if (ended_ == submitted_) return;
    pool_.OnStepEnded();
    ++ended_;
    std::erase_if(fenced_, [&](const auto& fence) { return fence.first <= ended_; });
    std::erase_if(fenced_tables_, [&](const auto& fence) {
      if (fence.first > ended_) return false;
      for (const std::uint32_t id : fence.second) fenced_ids_.erase(id);
      return true;
    });
  }
  /// Tries a few things and undoes them in reverse: every table must be as before, and so must be
  /// what the pool hands out next.
  void Transaction() {
    struct Done {
      bool take;
      std::uint32_t request;
      std::uint32_t blocks;
    };
    if (cached_) pool_.Record(true);
    const std::map<std::uint32_t, std::vector<std::uint32_t>> before = Tables();
    const std::vector<std::uint32_t> next_before = NextHandedOut();
    std::map<std::uint32_t, std::uint32_t> owned = owned_;
    std::vector<Done> undo;
    for (std::uint32_t i = rng_.Below(6); i > 0; --i) {
      const std::uint32_t request = rng_.Below(kRequests);
      const std::uint32_t blocks = 1 + rng_.Below(8);
      if (rng_.Below(2) == 0) {
        if (!pool_.Take(request, blocks)) continue;
        undo.push_back({true, request, blocks});
        owned[request] += blocks;
      } else if (owned[request] > 0) {
        pool_.Give(request, owned[request]);
        undo.push_back({false, request, owned[request]});
        owned[request] = 0;
      }
    }
    for (; !undo.empty(); undo.pop_back()) {
      const Done& done = undo.back();
      if (done.take) {
        pool_.UndoTake(done.request, done.blocks);
      } else {
        pool_.UndoGive(done.request, done.blocks);
      }
    }
    ASSERT_EQ(Tables(), before);
    ASSERT_EQ(NextHandedOut(), next_before);
    if (cached_) pool_.Record(false);
  }
  std::map<std::uint32_t, std::vector<std::uint32_t>> Tables() const {
    std::map<std::uint32_t, std::vector<std::uint32_t>> tables;
    for (std::uint32_t request = 0; request < kRequests; ++request) {
      tables[request] = TableOf(pool_, request);
    }
    return tables;
  }
  /// The blocks that a new request would get if it took all that are free.
  std::vector<std::uint32_t> NextHandedOut() {
    const std::uint32_t all = pool_.free_blocks();
    EXPECT_TRUE(pool_.Take(kRequests, all));
    const std::vector<std::uint32_t> table = TableOf(pool_, kRequests);
    pool_.UndoTake(kRequests, all);
    return table;
  }

  Rng rng_;
  bool identify_;
  bool cached_;
  KvPool pool_;
  std::map<std::uint32_t, std::uint32_t> owned_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>>
      fenced_;  ///< by steps submitted at the release
  std::vector<std::pair<std::uint64_t, std::vector<std::uint32_t>>> fenced_tables_;
  std::set<std::uint32_t> fenced_ids_;
  std::uint64_t submitted_ = 0;
  std::uint64_t ended_ = 0;
};

TEST(KvPool, KeepsItsBooksUnderAnyOperations) {
  for (const KvBooks books : kAllBooks) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", books " << static_cast<int>(books));
      TwinPool twin(seed, books);
      for (int i = 0; i < 2'000; ++i) {
        twin.Act();
        twin.Check();
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace schedtwin
