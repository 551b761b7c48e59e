#include "kernels/cpu/simd/kernels.h"

#define SCHEDTWIN_TEXT_OF(x) #x
#define SCHEDTWIN_TEXT(x) SCHEDTWIN_TEXT_OF(x)

namespace schedtwin::SCHEDTWIN_ISA {

extern const CpuKernels kKernels;
const CpuKernels kKernels = {
    .isa = SCHEDTWIN_TEXT(SCHEDTWIN_ISA),
    .gather = Gather,
    .rms_norm = RmsNorm,
    .layer_norm = LayerNorm,
    .add_bias = AddBias,
    .rope_append = RopeAppend,
    .attend = Attend,
    .swiglu = SwiGlu,
    .gelu = Gelu,
    .argmax = ArgMax,
    .exp = ExpArray,
    .panel_product = PanelProduct,
};

}  // namespace schedtwin::SCHEDTWIN_ISA
