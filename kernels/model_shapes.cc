#include "kernels/model_shapes.h"

namespace schedtwin {
namespace {

constexpr ModelShape kShapes[] = {
    // name, decoder, dim, layers, heads, KV heads, ffn, vocabulary
    {"llama-15m", true, 288, 6, 6, 6, 768, 32000},
    {"llama-110m", true, 768, 12, 12, 12, 2048, 32000},
    {"llama-1b", true, 2048, 22, 32, 4, 5632, 32000},
    {"llama-8b", true, 4096, 32, 32, 8, 14336, 128256},
    {"encoder-mini", false, 256, 4, 4, 4, 1024, 30522},
    {"bert-base", false, 768, 12, 12, 12, 3072, 30522},
    {"bert-large", false, 1024, 24, 16, 16, 4096, 30522},
};

}  // namespace

const ModelShape* FindModelShape(std::string_view name) {
  for (const ModelShape& shape : kShapes) {
    if (shape.name == name) return &shape;
  }
  return nullptr;
}

std::span<const ModelShape> ModelShapes() { return kShapes; }

}  // namespace schedtwin
