// Linear by oneDNN 2.6, whose matmul primitives are made for one number of rows each: made once,
// shared by all weights of the same n and k, and held. Weights are reordered once to the layout
// that the primitive for kMaxRows rows asks for; the others are made for that layout.
#include <array>
#include <dnnl.hpp>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/linear_backends.h"

#if DNNL_VERSION_MAJOR != 2
#error "oneDNN 2.x is needed: 3.x has no operation descriptors"
#endif

// oneDNN's threads are OpenMP's; the header that declares this is the compiler's own, and clang's
// may be missing where gcc's library is there.
extern "C" void omp_set_num_threads(int count);

namespace schedtwin {
namespace {

using dnnl::matmul;
using dnnl::memory;

dnnl::primitive_attr Attributes() {
  /// Scratch memory of our own: the library's is kept per thread, and would tie us to one.
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// Of a failed call: what std::bad_alloc means stays that.
[[noreturn]] void Rethrow(const dnnl::error& error) {
  if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
  throw std::runtime_error(std::string("oneDNN: ") + error.what());
}

/// The primitives of one (n, k).
class Shape {
 public:
  Shape(const dnnl::engine& engine, std::uint32_t n, std::uint32_t k)
      : engine_(engine), n_(n), k_(k) {
    const memory::desc any({k, n}, memory::data_type::f32, memory::format_tag::any);
    weights_desc_ = Describe(kMaxRows, any).weights_desc();
  }

  const memory::desc& weights_desc() const { return weights_desc_; }

  struct Piece {
    matmul primitive;
    memory x, y, scratch;  ///< x and y get their addresses at each run
    std::uint64_t scratch_bytes = 0;
  };

  /// rows: a multiple of kRowTile, at most kMaxRows.
  Piece& At(std::uint32_t rows) {
    Piece& piece = pieces_[rows / kRowTile - 1];
    if (piece.primitive) return piece;
    const matmul::primitive_desc desc = Describe(rows, weights_desc_);
    if (std::string_view(desc.impl_info_str()).starts_with("ref")) {
      throw std::runtime_error("oneDNN has only slow reference code for these weights' layout");
    }
    piece.scratch_bytes = desc.scratchpad_desc().get_size();
    piece.x = memory(desc.src_desc(), engine_, nullptr);
    piece.y = memory(desc.dst_desc(), engine_, nullptr);
    piece.scratch = memory(desc.scratchpad_desc(), engine_, nullptr);
    piece.primitive = matmul(desc);
    return piece;
  }

 private:
  matmul::primitive_desc Describe(std::uint32_t rows, const memory::desc& weights) const {
    constexpr auto kRowMajor = memory::format_tag::ab;
    const memory::desc x({rows, k_}, memory::data_type::f32, kRowMajor);
    const memory::desc y({rows, n_}, memory::data_type::f32, kRowMajor);
    return {matmul::desc(x, weights, y), Attributes(), engine_};
  }

  dnnl::engine engine_;
  std::uint32_t n_, k_;
  memory::desc weights_desc_;
  std::array<Piece, kMaxRows / kRowTile> pieces_;
};

/// What all weights of a backend share.
struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<std::pair<std::uint32_t, std::uint32_t>, Shape> shapes;
  Buffer scratch;
};

class OneDnnLinear final : public Linear {
 public:
  OneDnnLinear(Library& library, std::uint32_t n, std::uint32_t k, const float* weights)
      : Linear(n, k),
        library_(library),
        shape_(library.shapes.try_emplace({n, k}, library.engine, n, k).first->second),
        packed_((shape_.weights_desc().get_size() + sizeof(float) - 1) / sizeof(float)),
        weights_(shape_.weights_desc(), library.engine, packed_.data()) {
    const memory::desc given({k, n}, memory::data_type::f32, memory::format_tag::ba);
    memory from(given, library.engine, const_cast<float*>(weights));  // only read
    dnnl::reorder(from, weights_).execute(library.stream, from, weights_);
    library.stream.wait();
  }

  void Prepare(std::uint32_t max_rows) override try {
    omp_set_num_threads(1);
    const std::uint32_t largest = max_rows < kMaxRows ? PaddedRows(max_rows) : kMaxRows;
    std::uint64_t bytes = 0;
    for (std::uint32_t rows = kRowTile; rows <= largest; rows += kRowTile) {
      const std::uint64_t piece = shape_.At(rows).scratch_bytes;
      bytes = piece > bytes ? piece : bytes;
    }
    GrowScratch(bytes);
  } catch (const dnnl::error& error) {
    Rethrow(error);
  }

 private:
  void GrowScratch(std::uint64_t bytes) {
    library_.scratch.Grow((bytes + sizeof(float) - 1) / sizeof(float));
  }

  void RunPiece(const float* x, std::uint32_t rows, float* y) override try {
    omp_set_num_threads(1);  // holds for the calling thread; costs a few nanoseconds
    Shape::Piece& piece = shape_.At(rows);
    GrowScratch(piece.scratch_bytes);
    piece.x.set_data_handle(const_cast<float*>(x), library_.stream);  // only read
    piece.y.set_data_handle(y, library_.stream);
    piece.scratch.set_data_handle(library_.scratch.data(), library_.stream);
    piece.primitive.execute(library_.stream, {{DNNL_ARG_SRC, piece.x},
                                              {DNNL_ARG_WEIGHTS, weights_},
                                              {DNNL_ARG_DST, piece.y},
                                              {DNNL_ARG_SCRATCHPAD, piece.scratch}});
    library_.stream.wait();
  } catch (const dnnl::error& error) {
    Rethrow(error);
  }

  Library& library_;
  Shape& shape_;
  Buffer packed_;
  memory weights_;
};

const char* IsaName() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "other";
  }
}

class OneDnnBackend final : public LinearBackend {
 public:
  std::string name() const override {
    const dnnl_version_t* version = dnnl::version();
    return "onednn " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch) + " " + IsaName();
  }

  std::unique_ptr<Linear> Pack(std::uint32_t n, std::uint32_t k, const float* weights) override
      try {
    omp_set_num_threads(1);
    return std::make_unique<OneDnnLinear>(library_, n, k, weights);
  } catch (const dnnl::error& error) {
    Rethrow(error);
  }

 private:
  Library library_;
};

}  // namespace

std::unique_ptr<LinearBackend> MakeOneDnnBackend() { return std::make_unique<OneDnnBackend>(); }

}  // namespace schedtwin
