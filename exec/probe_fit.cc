#include "exec/probe_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace schedtwin {
namespace {

using Row = std::vector<double>;

// Some directions cannot be seen: a time in proportion to a step's tokens may be put into the body
// or into attention. A rule of thumb says where it goes, with a weight that no measurement notices.
constexpr double kRuleWeight = 1e-3;
constexpr double kRidge = 1e-9;  // for what no step tells anything of

/// Least squares with nothing negative, by normal equations: about a hundred unknowns. What comes
/// out negative is set to zero, the most negative first, and the rest solved again.
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
    std::vector<std::size_t> active;
    for (std::size_t i = 0; i < size_; ++i) {
      if (matrix_[i * size_ + i] > 0) active.push_back(i);
    }
    std::vector<double> found(size_);
    while (!active.empty()) {
      const std::vector<double> x = SolveActive(active);
      // Compared in what they add to a measurement, not in nanoseconds of unlike things.
      std::size_t worst = 0;
      double lowest = 0;
      for (std::size_t k = 0; k < active.size(); ++k) {
        const double share = x[k] * std::sqrt(matrix_[active[k] * size_ + active[k]]);
        if (share < lowest) {
          lowest = share;
          worst = k;
        }
      }
      if (lowest >= 0) {
        for (std::size_t k = 0; k < active.size(); ++k) found[active[k]] = x[k];
        break;
      }
      active.erase(active.begin() + static_cast<std::ptrdiff_t>(worst));
    }
    return found;
  }

 private:
  /// Cholesky of the scaled matrix, whose diagonal is one.
  std::vector<double> SolveActive(const std::vector<std::size_t>& active) const {
    const std::size_t n = active.size();
    std::vector<double> scale(n);
    for (std::size_t i = 0; i < n; ++i) {
      scale[i] = 1 / std::sqrt(matrix_[active[i] * size_ + active[i]]);
    }
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

/// Where the unknowns are, and a step as a row of their factors.
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
    row[prefill(0, chunk)] += layers_ * (1 + rate);
    row[prefill(0, 0)] -= layers_;
    row[prefill(1, chunk)] -= layers_ * rate;
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
    const Cell cell = CellOf(axis, (count + tile_ - 1) / tile_ * tile_);
    (*row)[first + cell.low] += 1 - cell.share;
    if (cell.share != 0) (*row)[first + cell.low + 1] += cell.share;
  }

  void AddChunk(const ProbeEntry& entry, Row* row) const {
    const Cell context = CellOf(grid_.contexts, entry.context_tokens);
    const Cell chunk = CellOf(grid_.chunks, entry.tokens);
    for (const std::size_t i : {0u, 1u}) {
      for (const std::size_t j : {0u, 1u}) {
        const double share =
            (i == 0 ? 1 - context.share : context.share) * (j == 0 ? 1 - chunk.share : chunk.share);
        if (share != 0) (*row)[prefill(context.low + i, chunk.low + j)] += layers_ * share;
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

/// Rows first: what ascends along the chunks still does when the contexts have been put in order.
void MakeTableAscending(PrefillTable* table) {
  const std::size_t width = table->chunk_tokens.size();
  const std::size_t height = table->context_tokens.size();
  for (std::size_t i = 0; i < height; ++i) {
    MakeAscending(std::span(table->layer_ns).subspan(i * width, width));
  }
  std::vector<double> column(height);
  for (std::size_t j = 0; j < width; ++j) {
    for (std::size_t i = 0; i < height; ++i) column[i] = table->layer_ns[i * width + j];
    MakeAscending(column);
    for (std::size_t i = 0; i < height; ++i) table->layer_ns[i * width + j] = column[i];
  }
}

}  // namespace

void MakeAscending(std::span<double> values) {
  struct Pool {
    double sum;
    std::size_t count;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (const double value : values) {
    pools.push_back({value, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::size_t at = 0;
  for (const Pool& pool : pools) {
    for (std::size_t k = 0; k < pool.count; ++k) values[at++] = pool.mean();
  }
}

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
      prefill.layer_ns.push_back(std::max(kLeastNs, found[equations.prefill(i, j)]));
    }
  }
  MakeTableAscending(&prefill);
}

}  // namespace schedtwin
