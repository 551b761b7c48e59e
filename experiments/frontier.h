// Frontier: which points of a sweep nobody beats in both latency and throughput, and which of those
// are the two working points: the one of lowest latency and the one of highest throughput. Pure;
// any thread.
#ifndef SCHEDTWIN_EXPERIMENTS_FRONTIER_H_
#define SCHEDTWIN_EXPERIMENTS_FRONTIER_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace schedtwin {

/// What a point trades: less latency and more throughput are better. nullopt: it has no such
/// figure, and is on no frontier.
struct TradePoint {
  std::optional<double> latency;
  std::optional<double> throughput;
};

/// Indices of the points on the frontier, from lowest latency to highest throughput. Of equal
/// points the first is taken. The first index is the low-latency point, the last the
/// high-throughput point.
std::vector<std::size_t> Frontier(std::span<const TradePoint> points);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_FRONTIER_H_
