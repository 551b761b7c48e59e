// Queueing theory: stationary means of single queues, for tests that hold the simulator to them.
// Pure functions of doubles; tests/unit/queueing_theory_test.cc holds them to published values and
// to one another. The unit of time is the mean service time, and `load` is the utilisation of each
// server, or of the places of a batch. Arrivals are Poisson, service times independent.
#ifndef SCHEDTWIN_TESTS_SUPPORT_QUEUEING_THEORY_H_
#define SCHEDTWIN_TESTS_SUPPORT_QUEUEING_THEORY_H_

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <numbers>
#include <vector>

namespace schedtwin::queueing {

/// Mean wait in M/G/1: Pollaczek and Khinchine. `second_moment` of a service of mean 1.
inline double PollaczekKhinchineWait(double load, double second_moment) {
  return load * second_moment / (2 * (1 - load));
}

/// The share of arrivals that wait in M/M/c: Erlang's C formula, by the recursion of his B formula.
inline double ErlangC(int servers, double load) {
  const double offered = servers * load;
  double blocked = 1;
  for (int n = 1; n <= servers; ++n) blocked = offered * blocked / (n + offered * blocked);
  return blocked / (1 - load * (1 - blocked));
}

/// Mean wait in M/M/c.
inline double ErlangWait(int servers, double load) {
  return ErlangC(servers, load) / (servers * (1 - load));
}

/// P(N >= n) for N Poisson. REQUIRES: n > mean.
inline double PoissonTail(double mean, int n) {
  double term = std::exp(n * std::log(mean) - mean - std::lgamma(n + 1.0));
  double tail = 0;
  for (int j = n; term > 1e-18 * tail; ++j) {
    tail += term;
    term *= mean / (j + 1);
  }
  return tail;
}

/// Mean wait in M/D/c: Crommelin, "Delay probability formulae when the holding times are constant",
/// POEEJ 25 (1932); in this form, with a = i c load,
///   Wq = sum over i >= 1 of [ P(N(a) >= i c) - P(N(a) >= i c + 1) / load ].
inline double CrommelinWait(int servers, double load) {
  double wait = 0;
  for (int i = 1;; ++i) {
    const int n = i * servers;
    const double first = PoissonTail(n * load, n);
    wait += first - PoissonTail(n * load, n + 1) / load;
    if (first < 1e-15) return wait;
  }
}

/// Mean wait in M/D^[1,b]/1: whoever waits is served together, up to `most` at once, in a constant
/// time whatever their number. What a service leaves behind is the chain X' = max(X - b, 0) + A, A
/// Poisson with mean a = b load, which has the generating function of Bailey, "On queueing
/// processes with bulk service", JRSS B 16 (1954), with the roots z of z^b = exp(-a (1 - z)) inside
/// the unit circle; the wait follows by averaging over services and idle times (Chaudhry and
/// Templeton, A First Course in Bulk Queues, 1983):
///   E[X] = a + sum of 1 / (1 - z) - (b (b - 1) - a^2) / (2 (b - a))
///   P(X = 0) = (b - a) product of z / (z - 1),   Wq = (E[X] - a / 2) / (a + P(X = 0)).
inline double BulkServiceWait(int most, double load) {
  const double b = most, a = b * load;
  std::complex<double> sum = 0, product = 1;
  for (int k = 1; k < most; ++k) {
    const std::complex<double> turn = std::polar(1.0, 2 * std::numbers::pi * k / b);
    std::complex<double> z = 0;
    for (int round = 0; round < 2000; ++round) z = turn * std::exp(-load * (1.0 - z));
    sum += 1.0 / (1.0 - z);
    product *= z / (z - 1.0);
  }
  const double left = a + sum.real() - (b * (b - 1) - a * a) / (2 * (b - a));
  return (left - a / 2) / (a + (b - a) * product.real());
}

/// One class of a priority queue; the first of a list goes first.
struct PriorityClass {
  double rate = 0;  ///< arrivals
  double mean = 1;  ///< of its service time
  double second_moment = 1;
};

/// Mean wait of class `k` in M/G/1 with non-preemptive priorities: Cobham, "Priority assignment in
/// waiting line problems", Operations Research 2 (1954).
inline double CobhamWait(const std::vector<PriorityClass>& classes, std::size_t k) {
  double residual = 0, before = 0, with = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    residual += classes[i].rate * classes[i].second_moment / 2;
    const double load = classes[i].rate * classes[i].mean;
    if (i < k) before += load;
    if (i <= k) with += load;
  }
  return residual / ((1 - before) * (1 - with));
}

/// Mean time in system in M/G/1 with processor sharing, whatever the law of service times
/// (Kleinrock, Queueing Systems II, 1976, section 4.4).
inline double ProcessorSharingTime(double load) { return 1 / (1 - load); }

/// Mean time in system when the processor is shared in steps: each gives every request that was
/// there at its start one quantum, and takes as many quanta as there were requests. `law[k]` is the
/// probability that a service takes k quanta. It tends to ProcessorSharingTime as quanta get finer.
///
/// A busy period is a branching process: in each of its steps a request has Poisson(c) children, c
/// arrivals per quantum. With Z(t) requests in step t of a busy period begun by one request,
///   g(t) = E[Z(t)] = P(K > t) + c sum over s < t of P(K > s) g(t - 1 - s),
/// and E[Z(t)^2] follows by conditioning on the first request's K, which brings the sum over t to
///   H = sum over k, t of P(K = k) (1{k > t} + c sum over s < min(k, t) of g(t - 1 - s))^2
///       / (1 - load).
/// A step of n requests holds n^2 + c n^2 / 2 requests times quanta; Little's law does the rest.
inline double SteppedSharingTime(const std::vector<double>& law, double load) {
  double mean = 0;
  for (std::size_t k = 0; k < law.size(); ++k) mean += static_cast<double>(k) * law[k];
  const double births = load / mean;
  std::vector<double> more(law.size());  // P(K > t)
  double above = 1;
  for (std::size_t k = 0; k < law.size(); ++k) more[k] = above -= law[k];
  std::vector<double> sums = {0};  // of g(s), s < t
  std::vector<double> g;
  do {
    const std::size_t t = g.size();
    double value = t < law.size() ? more[t] : 0;
    for (std::size_t s = 0; s < std::min(t, law.size()); ++s) {
      value += births * more[s] * g[t - 1 - s];
    }
    g.push_back(value);
    sums.push_back(sums.back() + value);
  } while (g.back() > 1e-9 || g.size() < law.size());
  double squares = 0;
  for (std::size_t k = 1; k < law.size(); ++k) {
    if (law[k] == 0) continue;
    for (std::size_t t = 0; t < g.size(); ++t) {
      const double children = births * (sums[t] - sums[t - std::min(k, t)]);
      const double both = (k > t ? 1 : 0) + children;
      squares += law[k] * both * both;
    }
  }
  const double total = squares / (1 - load);
  return (1 - load) * total * (1 + births / 2) / mean;
}

}  // namespace schedtwin::queueing

#endif  // SCHEDTWIN_TESTS_SUPPORT_QUEUEING_THEORY_H_
