// The kernels for x86-64-v3.
#include <immintrin.h>

#include "backend/cpu/simd/kernels.h"

#define TRAINER_BLOCK 8

namespace trainer::backend::cpu::simd::v3 {
namespace {
#include "backend/cpu/simd/table.inl"
}  // namespace

const Kernels kTable = {B,
                        "x86-64-v3",
                        typed<float>(),
                        typed<BFloat16>(),
                        winograd,
                        winograd_scratch,
                        winograd_weights,
                        winograd_weights_scratch,
                        depthwise_scratch,
                        depthwise_backward_scratch,
                        sum,
                        sum_of_squares,
                        sum_of_absolutes,
                        gradient_square,
                        sgd,
                        rms_prop,
                        adam,
                        nadam,
                        adagrad,
                        lion,
                        lamb_squares,
                        lamb};

}  // namespace trainer::backend::cpu::simd::v3
