// The formulas of tests/support/queueing_theory.h against published values, values worked by hand,
// and one another by other ways to the same mean.
#include "tests/support/queueing_theory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace schedtwin::queueing {
namespace {

// The chain X' = max(X - width, 0) + A, A Poisson with mean width * load: what is in an M/D/c
// system one service later, or what a bulk service leaves behind. Its stationary distribution by
// iteration.
std::vector<double> StationaryChain(int width, double load) {
  constexpr int kStates = 200;
  std::vector<double> arrivals(kStates, std::exp(-width * load));
  for (int j = 1; j < kStates; ++j) arrivals[j] = arrivals[j - 1] * width * load / j;
  std::vector<double> p(kStates, 0.0);
  p[0] = 1;
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> next(kStates, 0.0);
    for (int n = 0; n < kStates; ++n) {
      const int left = std::max(n - width, 0);
      for (int j = 0; left + j < kStates; ++j) next[left + j] += p[n] * arrivals[j];
    }
    p.swap(next);
  }
  return p;
}

double Mean(const std::vector<double>& p) {
  double mean = 0;
  for (std::size_t n = 0; n < p.size(); ++n) mean += static_cast<double>(n) * p[n];
  return mean;
}

std::vector<double> Geometric(int mean) {
  std::vector<double> law(40 * static_cast<std::size_t>(mean));
  double left = 1;
  for (std::size_t k = 1; k < law.size(); ++k) {
    law[k] = left / mean;
    left -= law[k];
  }
  return law;
}

// Bronson, Schaum's Outline of Operations Research (1982), chapters 23 and 24, to the digits there.
TEST(QueueingTheory, ErlangAsPublished) {
  // Problem 23.3: M/M/1, 24 arrivals and 30 services an hour: L = 4.
  EXPECT_NEAR((1 + ErlangWait(1, 0.8)) * 0.8, 4, 1e-12);
  // Problem 24.6: M/M/3, 300 arrivals and 182.5 services a year: Lq = 0.352, L = 1.996.
  const double offered = 300 / 182.5;
  EXPECT_NEAR(ErlangWait(3, offered / 3) * offered, 0.352, 5e-4);
  EXPECT_NEAR((1 + ErlangWait(3, offered / 3)) * offered, 1.996, 5e-4);
}

TEST(QueueingTheory, ErlangByHand) {
  // c = 3, a = 2: p(0) = 1/9, so 4/9 wait, Lq = 8/9 and Wq = 4/9.
  EXPECT_NEAR(ErlangC(3, 2.0 / 3), 4.0 / 9, 1e-12);
  EXPECT_NEAR(ErlangWait(3, 2.0 / 3), 4.0 / 9, 1e-12);
  // Two servers: W = 1 / (1 - rho^2).
  for (const double load : {0.3, 0.7, 0.95}) {
    EXPECT_NEAR(1 + ErlangWait(2, load), 1 / (1 - load * load), 1e-9);
  }
}

TEST(QueueingTheory, PollaczekKhinchine) {
  // Bronson, problem 23.14: M/M/1 at load 0.75: Lq = 2.25.
  EXPECT_NEAR(PollaczekKhinchineWait(0.75, 2) * 0.75, 2.25, 1e-12);
  // Half the wait where service is constant.
  EXPECT_NEAR(PollaczekKhinchineWait(0.75, 1) * 0.75, 1.125, 1e-12);
}

TEST(QueueingTheory, CrommelinThreeWays) {
  for (const double load : {0.3, 0.7, 0.9, 0.95}) {
    EXPECT_NEAR(CrommelinWait(1, load), PollaczekKhinchineWait(load, 1), 1e-7);
  }
  // By hand: c = 2, a = 1 has the one root z = -exp(-(1 - z) / 2) = -0.477670, and
  // Lq = 1 / (1 - z) - (2 - a^2) / (2 (2 - a)) = 0.676741 - 0.5; Wq the same, as a = 1.
  EXPECT_NEAR(CrommelinWait(2, 0.5), 0.176741, 1e-6);
  for (const int servers : {2, 4}) {
    // Little's law makes the mean of the chain a time in system.
    const double offered = servers * 0.7;
    EXPECT_NEAR(1 + CrommelinWait(servers, 0.7), Mean(StationaryChain(servers, 0.7)) / offered,
                1e-9);
  }
}

TEST(QueueingTheory, BulkService) {
  // One at a time is M/D/1.
  for (const double load : {0.3, 0.7, 0.95}) {
    EXPECT_NEAR(BulkServiceWait(1, load), PollaczekKhinchineWait(load, 1), 1e-9);
  }
  // By hand: b = 2, a = 1, the root as above. E[X] = 1.176741, P(X = 0) = z / (z - 1) = 0.323259,
  // Wq = 0.676741 / 1.323259.
  EXPECT_NEAR(BulkServiceWait(2, 0.5), 0.511420, 1e-6);
  // By the chain itself.
  for (const int most : {2, 4, 7}) {
    const std::vector<double> p = StationaryChain(most, 0.7);
    const double arrivals = most * 0.7;
    EXPECT_NEAR(BulkServiceWait(most, 0.7), (Mean(p) - arrivals / 2) / (arrivals + p[0]), 1e-9);
  }
}

TEST(QueueingTheory, CobhamByHand) {
  // Two classes alike at load 0.5, M/M: W0 = 0.5; 0.5 / 0.75 and 0.5 / (0.75 * 0.5).
  const std::vector<PriorityClass> alike = {{0.25, 1, 2}, {0.25, 1, 2}};
  EXPECT_NEAR(CobhamWait(alike, 0), 2.0 / 3, 1e-12);
  EXPECT_NEAR(CobhamWait(alike, 1), 4.0 / 3, 1e-12);
  // One class alone has no priority.
  EXPECT_NEAR(CobhamWait({{0.7, 1, 2}}, 0), PollaczekKhinchineWait(0.7, 2), 1e-12);
  // Kleinrock's conservation law: sum of load * wait is what it is without priorities.
  const std::vector<PriorityClass> unlike = {{0.28, 0.5, 0.5}, {0.42, 4.0 / 3, 16.0 / 9}};
  const double residual = 0.28 * 0.5 / 2 + 0.42 * 16 / 9 / 2;
  EXPECT_NEAR(0.14 * CobhamWait(unlike, 0) + 0.56 * CobhamWait(unlike, 1), 0.7 * residual / 0.3,
              1e-12);
}

TEST(QueueingTheory, SteppedSharingByHand) {
  // Geometric services with p = 1 / 20 make the busy period a branching process of one type, whose
  // moments are closed: (2 - p) / (2 - p (1 - load)) * (1 + load p / 2) of 1 / (1 - load).
  for (const double load : {0.3, 0.7, 0.95}) {
    constexpr double p = 1.0 / 20;
    EXPECT_NEAR(SteppedSharingTime(Geometric(20), load),
                (2 - p) / (2 - p * (1 - load)) * (1 + load * p / 2) * ProcessorSharingTime(load),
                1e-5);
  }
  // p = 1: everybody stays for one step, (1 + load / 2) / (1 - load^2).
  EXPECT_NEAR(SteppedSharingTime({0, 1}, 0.5), 1.25 / 0.75, 1e-7);
}

TEST(QueueingTheory, FineQuantaSharePerfectly) {
  // Finer quanta, whatever the law: the same mean.
  double before = 1;
  for (const std::size_t quanta : {10u, 40u, 160u}) {
    std::vector<double> constant(quanta + 1);
    constant[quanta] = 1;
    const double off = std::abs(SteppedSharingTime(constant, 0.7) / ProcessorSharingTime(0.7) - 1);
    EXPECT_LT(off, before / 3);
    before = off;
  }
  EXPECT_LT(before, 0.003);
}

}  // namespace
}  // namespace schedtwin::queueing
