// The arithmetic of transformers in double precision, written as in the papers and for reading:
// what the kernels are measured against. (Inner loops go by pointer: sanitized tests are not
// optimised.)
#ifndef SCHEDTWIN_TESTS_SUPPORT_REFERENCE_MATH_H_
#define SCHEDTWIN_TESTS_SUPPORT_REFERENCE_MATH_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace schedtwin::reference {

using Row = std::vector<double>;

// weights: [outputs][x.size()].
inline Row Times(std::span<const float> weights, const Row& x) {
  Row y(weights.size() / x.size());
  const float* w = weights.data();
  const double* begin = x.data();
  const double* end = begin + x.size();
  for (double& out : y) {
    double sum = 0;
    for (const double* v = begin; v != end; ++v, ++w) sum += *v * *w;
    out = sum;
  }
  return y;
}

inline Row Plus(Row a, std::span<const float> b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

inline Row Plus(Row a, const Row& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

inline Row RmsNorm(Row x, std::span<const float> weight, double epsilon) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double rms = std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] / rms * weight[i];
  return x;
}

inline Row LayerNorm(Row x, std::span<const float> weight, std::span<const float> shift,
                     double epsilon) {
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = (x[i] - mean) / std::sqrt(variance + epsilon) * weight[i] + shift[i];
  }
  return x;
}

inline double Silu(double x) { return x / (1 + std::exp(-x)); }

inline double Gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// One query head over `seen` tokens, whose keys and values start at `at` in their rows.
inline Row Attend(const Row& query, const std::vector<Row>& keys, const std::vector<Row>& values,
                  std::size_t at, std::size_t seen) {
  const std::size_t width = query.size();
  Row weights(seen), mixed(width);
  const double scale = std::sqrt(static_cast<double>(width));
  const double* q = query.data();
  for (std::size_t t = 0; t < seen; ++t) {
    const double* key = keys[t].data() + at;
    double score = 0;
    for (std::size_t i = 0; i < width; ++i) score += q[i] * key[i];
    weights[t] = score / scale;
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - largest);
  double* out = mixed.data();
  for (std::size_t t = 0; t < seen; ++t) {
    const double* value = values[t].data() + at;
    const double weight = weights[t] / sum;
    for (std::size_t i = 0; i < width; ++i) out[i] += weight * value[i];
  }
  return mixed;
}

// The largest difference, relative to the largest value expected; infinite if anything is no
// number.
template <typename Expected>
double RelativeError(std::span<const float> got, const Expected& expected) {
  double difference = 0, largest = 0;
  if (got.size() != expected.size()) return std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::abs(static_cast<double>(got[i]) - expected[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return largest > 0 ? difference / largest : difference;
}

}  // namespace schedtwin::reference

#endif  // SCHEDTWIN_TESTS_SUPPORT_REFERENCE_MATH_H_
