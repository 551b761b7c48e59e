// Buffer: an array of floats on a cache-line boundary, as SIMD loads and oneDNN like it. Memory is
// zeroed when it is taken, so that every page is there before the first step and a lack of it shows
// at once. Owns its memory; move-only.
#ifndef SCHEDTWIN_KERNELS_CPU_BUFFER_H_
#define SCHEDTWIN_KERNELS_CPU_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>

namespace schedtwin {

class Buffer {
 public:
  Buffer() = default;
  /// Throws std::bad_alloc. Sizes that overflow come as the largest (see Product).
  explicit Buffer(std::uint64_t size) : size_(size) {
    if (size > std::numeric_limits<std::size_t>::max() / (2 * sizeof(float)))
      throw std::bad_alloc();
    data_.reset(static_cast<float*>(::operator new(size * sizeof(float), kAlign)));
    std::fill_n(data_.get(), size, 0.0F);
  }

  float* data() const { return data_.get(); }
  std::uint64_t size() const { return size_; }
  std::span<float> span() const { return {data_.get(), size_}; }

  /// At least `size` floats from now on; what was in it is lost when it grows.
  void Grow(std::uint64_t size) {
    if (size <= size_) return;
    *this = Buffer();
    *this = Buffer(size);
  }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(float* data) const { ::operator delete(data, kAlign); }
  };

  std::unique_ptr<float[], Free> data_;
  std::uint64_t size_ = 0;
};

/// a * b; the largest value, of which no Buffer is made, when that overflows.
inline std::uint64_t Product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &product);
  return overflow ? std::numeric_limits<std::uint64_t>::max() : product;
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_KERNELS_CPU_BUFFER_H_
