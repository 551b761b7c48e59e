// Linear: y[rows][n] = x[rows][k] * w[n][k]^T in float32, with the weights packed once, from one of
// two backends: oneDNN, where the build has it, or plain loops, everywhere.
//
// The padding rule: rows are padded up to a multiple of kRowTile, and at most kMaxRows rows are
// multiplied at a time, so that the set of shapes is bounded, all can be prepared before the first
// step, and a table of step times sampled at multiples of kRowTile meets every case. x and y must
// have room for PaddedRows(rows) rows; what stands in the padding of x does not matter, what is
// written to the padding of y means nothing. A row's result does not depend on its
// neighbours' values; with oneDNN its last bits may depend on how many there are.
//
// A LinearBackend and the Linears packed by it belong together: it outlives them, and one thread at
// a time uses them (any one: nothing is kept per thread). Work is done by the calling thread alone.
#ifndef SCHEDTWIN_KERNELS_CPU_LINEAR_H_
#define SCHEDTWIN_KERNELS_CPU_LINEAR_H_

#include <cstdint>
#include <memory>
#include <string>

namespace schedtwin {

inline constexpr std::uint32_t kRowTile = 8;
inline constexpr std::uint32_t kMaxRows = 512;

constexpr std::uint32_t PaddedRows(std::uint32_t rows) {
  return (rows + kRowTile - 1) / kRowTile * kRowTile;
}

enum class LinearBackendKind : std::uint8_t { kPlain, kOneDnn };

bool HasOneDnn();  ///< whether this build does
inline LinearBackendKind DefaultLinearBackend() {
  return HasOneDnn() ? LinearBackendKind::kOneDnn : LinearBackendKind::kPlain;
}

class Linear {
 public:
  virtual ~Linear() = default;

  /// Makes what Run needs for up to `max_rows` rows; Run makes what is still missing when it is
  /// called, at a price of up to a millisecond.
  virtual void Prepare(std::uint32_t max_rows) = 0;

  void Run(const float* x, std::uint32_t rows, float* y);

 protected:
  Linear(std::uint32_t n, std::uint32_t k) : n_(n), k_(k) {}
  /// rows: a multiple of kRowTile, at most kMaxRows.
  virtual void RunPiece(const float* x, std::uint32_t rows, float* y) = 0;

  std::uint32_t n_, k_;
};

class LinearBackend {
 public:
  virtual ~LinearBackend() = default;
  virtual std::string name() const = 0;  ///< with version and instruction set: "onednn 2.6.3 avx2"
  /// Copies the weights. Throws std::bad_alloc.
  virtual std::unique_ptr<Linear> Pack(std::uint32_t n, std::uint32_t k, const float* weights) = 0;
};

/// Throws std::invalid_argument when the build lacks it.
std::unique_ptr<LinearBackend> MakeLinearBackend(LinearBackendKind kind = DefaultLinearBackend());

}  // namespace schedtwin

#endif  // SCHEDTWIN_KERNELS_CPU_LINEAR_H_
