#include "experiments/frontier.h"

#include <algorithm>

namespace schedtwin {

std::vector<std::size_t> Frontier(std::span<const TradePoint> points) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].latency.has_value() && points[i].throughput.has_value()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (*points[a].latency != *points[b].latency) return *points[a].latency < *points[b].latency;
    return *points[a].throughput > *points[b].throughput;
  });
  std::vector<std::size_t> frontier;
  for (const std::size_t i : order) {
    if (frontier.empty() || *points[i].throughput > *points[frontier.back()].throughput) {
      frontier.push_back(i);
    }
  }
  return frontier;
}

}  // namespace schedtwin
