#include "exec/probe_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace schedtwin {
namespace {

using Row = std::vector<double>;

// Some directions cannot be seen: a time in proportion to a step's tokens may be put into the body
// or into attention. A rule of thumb says where it goes, with a weight that no measurement notices.
constexpr double kRuleWeight = 1e-3;
constexpr double kRidge = 1e-9;  // for what no step tells anything of

/// Least squares with nothing negative (Lawson and Hanson's method), by normal equations: about a
/// hundred unknowns.
class Solver {
 public:
  explicit Solver(std::size_t unknowns)
      : size_(unknowns), matrix_(unknowns * unknowns), right_(unknowns) {}

  void Add(const Row& row, double value, double weight) {
    for (std::size_t i = 0; i < size_; ++i) {
      if (row[i] == 0) continue;
      const double scaled = row[i] * weight * weight;
      right_[i] += scaled * value;
      for (std::size_t j = 0; j < size_; ++j) matrix_[i * size_ + j] += scaled * row[j];
    }
  }

  std::vector<double> Solve() const {
    std::vector<double> found(size_);
    std::vector<std::size_t> active;
    // Each turn lowers the error; the bound is for rounding, which might go round in a circle.
    for (std::size_t turn = 0; turn < 4 * size_; ++turn) {
      const std::size_t next = MostWanted(found, active);
      if (next == size_) break;
      active.push_back(next);
      while (!active.empty() && !MoveTowards(SolveActive(active), &active, &found)) {
      }
    }
    return found;
  }

 private:
  double ScaleOf(std::size_t i) const { return 1 / std::sqrt(matrix_[i * size_ + i]); }

  /// Which unknown at zero would lower the error most if it were more; size_: none.
  std::size_t MostWanted(const std::vector<double>& found,
                         const std::vector<std::size_t>& active) const {
    std::size_t best = size_;
    double steepest = 1e-9;
    for (std::size_t i = 0; i < size_; ++i) {
      if (matrix_[i * size_ + i] <= 0) continue;
      if (std::find(active.begin(), active.end(), i) != active.end()) continue;
      double slope = right_[i];
      for (const std::size_t j : active) slope -= matrix_[i * size_ + j] * found[j];
      slope *= ScaleOf(i);
      if (slope > steepest) {
        steepest = slope;
        best = i;
      }
    }
    return best;
  }

  /// Moves to `x`, or as far as nothing is negative, and lets go of what is zero there. True: it
  /// got there.
  static bool MoveTowards(const std::vector<double>& x, std::vector<std::size_t>* active,
                          std::vector<double>* found) {
    double step = 1;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double from = (*found)[(*active)[k]];
      if (x[k] <= 0) step = std::min(step, from / (from - x[k] + 1e-300));
    }
    std::vector<std::size_t> kept;
    for (std::size_t k = 0; k < x.size(); ++k) {
      double& value = (*found)[(*active)[k]];
      value += step * (x[k] - value);
      if (x[k] <= 0 && value <= 1e-12 * std::fabs(x[k])) value = 0;
      if (value > 0) {
        kept.push_back((*active)[k]);
      } else {
        value = 0;
      }
    }
    const bool there = kept.size() == active->size() && step == 1;
    *active = std::move(kept);
    return there;
  }

  /// Cholesky of the scaled matrix, whose diagonal is one.
  std::vector<double> SolveActive(const std::vector<std::size_t>& active) const {
    const std::size_t n = active.size();
    std::vector<double> scale(n);
    for (std::size_t i = 0; i < n; ++i) scale[i] = ScaleOf(active[i]);
    std::vector<double> l(n * n);
    std::vector<double> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = matrix_[active[i] * size_ + active[j]] * scale[i] * scale[j];
        if (i == j) sum += kRidge;
        for (std::size_t k = 0; k < j; ++k) sum -= l[i * n + k] * l[j * n + k];
        l[i * n + j] = i == j ? std::sqrt(std::max(sum, kRidge)) : sum / l[j * n + j];
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      double sum = right_[active[i]] * scale[i];
      for (std::size_t k = 0; k < i; ++k) sum -= l[i * n + k] * x[k];
      x[i] = sum / l[i * n + i];
    }
    for (std::size_t i = n; i-- > 0;) {
      double sum = x[i];
      for (std::size_t k = i + 1; k < n; ++k) sum -= l[k * n + i] * x[k];
      x[i] = sum / l[i * n + i];
    }
    for (std::size_t i = 0; i < n; ++i) x[i] *= scale[i];
    return x;
  }

  std::size_t size_;
  std::vector<double> matrix_;
  std::vector<double> right_;
};

/// Where the unknowns are, and a step as a row of their factors. Those of prefill attention are
/// what each point of its grid adds to the points before it, in both directions: with none
/// negative, attention grows with the context and with the chunk, and with a longer chunk faster in
/// the context.
class Equations {
 public:
  Equations(const ProbeGrid& grid, double layers, std::uint32_t tile)
      : grid_(grid),
        layers_(layers),
        tile_(tile),
        head_(grid.body.size()),
        decode_(head_ + grid.head.size()),
        prefill_(decode_ + 3),
        size_(prefill_ + grid.contexts.size() * grid.chunks.size()) {}

  std::size_t size() const { return size_; }
  std::size_t head() const { return head_; }
  std::size_t decode() const { return decode_; }
  std::size_t prefill(std::size_t context, std::size_t chunk) const {
    return prefill_ + context * grid_.chunks.size() + chunk;
  }

  Row Of(const ProbeShape& shape) const {
    Row row(size_);
    std::uint32_t rows = 0;
    for (const ProbeEntry& entry : shape.entries) {
      if (entry.samples || entry.decode) ++rows;
      if (entry.decode) {
        row[decode_] = layers_;
        row[decode_ + 1] += layers_;
        row[decode_ + 2] += layers_ * (entry.context_tokens + 1.0);
      } else {
        AddChunk(entry, &row);
      }
    }
    AddTable(grid_.body, 0, shape.tokens(), &row);
    if (rows > 0) AddTable(grid_.head, head_, rows, &row);
    return row;
  }

  /// The rule: what a chunk's attention takes after nothing is what its work says, s * (C + s / 2),
  /// at the rate that it shows when the context C grows; no part of it is in proportion to s.
  Row RuleOf(std::size_t chunk) const {
    const double s = grid_.chunks[chunk];
    const double rate = (s * s - 1) / (2 * s * grid_.contexts[1]);
    Row row(size_);
    AddPoint(0, chunk, 1 + rate, &row);
    AddPoint(0, 0, -1, &row);
    AddPoint(1, chunk, -rate, &row);
    return row;
  }

 private:
  struct Cell {
    std::size_t low;
    double share;  ///< of the point after `low`
  };
  static Cell CellOf(const std::vector<std::uint32_t>& axis, double x) {
    if (axis.size() == 1 || x <= axis[0]) return {0, 0};
    std::size_t i = 1;
    while (i + 1 < axis.size() && axis[i] < x) ++i;
    return {i - 1, (x - axis[i - 1]) / (static_cast<double>(axis[i]) - axis[i - 1])};
  }

  /// As StepTimeModel looks up: padded to the tile, linear between points, on past the last.
  void AddTable(const std::vector<std::uint32_t>& axis, std::size_t first, std::uint32_t count,
                Row* row) const {
    const Cell cell = CellOf(axis, count + (tile_ - count % tile_) % tile_);
    (*row)[first + cell.low] += 1 - cell.share;
    if (cell.share != 0) (*row)[first + cell.low + 1] += cell.share;
  }

  /// `share` of the value at a point of the prefill grid: the sum of all that leads there.
  void AddPoint(std::size_t context, std::size_t chunk, double share, Row* row) const {
    for (std::size_t i = 0; i <= context; ++i) {
      for (std::size_t j = 0; j <= chunk; ++j) (*row)[prefill(i, j)] += layers_ * share;
    }
  }

  void AddChunk(const ProbeEntry& entry, Row* row) const {
    const Cell context = CellOf(grid_.contexts, entry.context_tokens);
    const Cell chunk = CellOf(grid_.chunks, entry.tokens);
    for (const std::size_t i : {0u, 1u}) {
      for (const std::size_t j : {0u, 1u}) {
        const double share =
            (i == 0 ? 1 - context.share : context.share) * (j == 0 ? 1 - chunk.share : chunk.share);
        if (share != 0) AddPoint(context.low + i, chunk.low + j, share, row);
      }
    }
  }

  const ProbeGrid& grid_;
  double layers_;
  std::uint32_t tile_;
  std::size_t head_;
  std::size_t decode_;
  std::size_t prefill_;
  std::size_t size_;
};

}  // namespace

void FitDecoder(const ProbeGrid& grid, std::span<const ProbeShape> shapes,
                std::span<const double> wall_ns, Profile* profile) {
  const Equations equations(grid, profile->layers, profile->tile);
  Solver solver(equations.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    solver.Add(equations.Of(shapes[i]), wall_ns[i], 1 / wall_ns[i]);
    const ProbeEntry& first = shapes[i].entries[0];
    if (shapes[i].part != ProbePart::kPrefill || first.context_tokens > 0) continue;
    const auto at = std::find(grid.chunks.begin(), grid.chunks.end(), first.tokens);
    const auto chunk = static_cast<std::size_t>(at - grid.chunks.begin());
    if (chunk > 0) solver.Add(equations.RuleOf(chunk), 0, kRuleWeight / wall_ns[i]);
  }
  const std::vector<double> found = solver.Solve();
  constexpr double kLeastNs = 1e-3;  // a profile's times are above zero
  profile->steps.clear();
  for (std::size_t i = 0; i < grid.body.size(); ++i) {
    profile->steps.push_back({grid.body[i], std::max(kLeastNs, found[i])});
  }
  profile->head.clear();
  for (std::size_t i = 0; i < grid.head.size(); ++i) {
    profile->head.push_back({grid.head[i], std::max(kLeastNs, found[equations.head() + i])});
  }
  profile->decode_base_ns = found[equations.decode()];
  profile->decode_ns_per_sequence = found[equations.decode() + 1];
  profile->decode_ns_per_context_token = found[equations.decode() + 2];
  PrefillTable& prefill = profile->prefill;
  prefill = {grid.contexts, grid.chunks, {}, 0};
  for (std::size_t i = 0; i < grid.contexts.size(); ++i) {
    for (std::size_t j = 0; j < grid.chunks.size(); ++j) {
      double ns = 0;
      for (std::size_t k = 0; k <= i; ++k) {
        for (std::size_t l = 0; l <= j; ++l) ns += found[equations.prefill(k, l)];
      }
      prefill.layer_ns.push_back(std::max(kLeastNs, ns));
    }
  }
}

}  // namespace schedtwin
