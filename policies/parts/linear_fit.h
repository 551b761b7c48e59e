// LinearFit: least squares of y on N features, one sample at a time: sums of products, solved when
// asked after something has changed. Features that differ by orders of magnitude are scaled to one
// another first, and a ridge far below what a measurement is good for keeps features that have
// always gone together, or were never there, from having huge weights of opposite signs, or any.
// Plain double arithmetic in a fixed order: the same bits everywhere. A value; one thread.
#ifndef SCHEDTWIN_POLICIES_PARTS_LINEAR_FIT_H_
#define SCHEDTWIN_POLICIES_PARTS_LINEAR_FIT_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace schedtwin {

template <std::size_t N>
class LinearFit {
 public:
  using Features = std::array<double, N>;

  std::uint64_t samples() const { return samples_; }

  void Add(const Features& x, double y) {
    for (std::size_t i = 0; i < N; ++i) {
      for (std::size_t j = 0; j <= i; ++j) products_[i][j] += x[i] * x[j];
      moments_[i] += x[i] * y;
    }
    ++samples_;
    solved_ = false;
  }

  double Predict(const Features& x) {
    if (!solved_) Solve();
    double y = 0;
    for (std::size_t i = 0; i < N; ++i) y += weights_[i] * x[i];
    return y;
  }

 private:
  static constexpr double kRidge = 1e-9;

  /// By L D L^T of the scaled products, whose diagonal is 1.
  void Solve() {
    Features scale = {};
    for (std::size_t i = 0; i < N; ++i) {
      scale[i] = products_[i][i] > 0 ? 1 / std::sqrt(products_[i][i]) : 0;
    }
    std::array<Features, N> lower = {};
    Features diagonal = {};
    Features z = {};
    for (std::size_t i = 0; i < N; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double left = i == j ? 1 + kRidge : products_[i][j] * scale[i] * scale[j];
        for (std::size_t k = 0; k < j; ++k) left -= lower[i][k] * lower[j][k] * diagonal[k];
        (i == j ? diagonal[i] : lower[i][j]) = i == j ? left : left / diagonal[j];
      }
      z[i] = moments_[i] * scale[i];
      for (std::size_t k = 0; k < i; ++k) z[i] -= lower[i][k] * z[k];
    }
    for (std::size_t i = 0; i < N; ++i) z[i] /= diagonal[i];
    for (std::size_t i = N; i-- > 0;) {
      for (std::size_t k = i + 1; k < N; ++k) z[i] -= lower[k][i] * z[k];
    }
    for (std::size_t i = 0; i < N; ++i) weights_[i] = z[i] * scale[i];
    solved_ = true;
  }

  std::array<Features, N> products_ = {};  ///< lower triangle
  Features moments_ = {};
  Features weights_ = {};
  std::uint64_t samples_ = 0;
  bool solved_ = true;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_LINEAR_FIT_H_
