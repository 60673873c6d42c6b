// All kernels for one instruction set. The including file defines, after <immintrin.h>:
// TRAINER_BLOCK, the floats of a vector; TRAINER_LEVEL, the namespace; and TRAINER_LEVEL_NAME. No
// other header with inline functions may be included: the linker could keep this instruction set's
// copy for everyone.
#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

// Each of these files uses what stands in those before it.
// clang-format off
#include "backend/cpu/simd/vector.inl"
#include "backend/cpu/simd/winograd_transforms.inl"
#include "backend/cpu/simd/winograd.inl"
#include "backend/cpu/simd/winograd_weights.inl"
#include "backend/cpu/simd/batch_norm.inl"
#include "backend/cpu/simd/sums.inl"
// clang-format on

// The kernels K of this instruction set, which the file that defines them specialises.
template <class K>
extern const K kKernels;

template <class T>
constexpr Typed<T> kKernels<Typed<T>> = {
    .moments = moments<T>,
    .scale_shift = scale_shift<T>,
    .add_to_norm = add_to_norm<T>,
    .add_two_norms = add_two_norms<T>,
    .norm_sums = norm_sums<T>,
    .activation_gradient = activation_gradient<T>,
    .activation_gradient_sums = activation_gradient_sums<T>,
    .norm_backward = norm_backward<T>,
};

template <class T>
constexpr Winograd<T> kKernels<Winograd<T>> = {
    .forward = winograd<T>,
    .weights = winograd_weights<T>,
};

}  // namespace

template <class K>
const K& find_kernels() {
  return kKernels<K>;
}
template const Typed<float>& find_kernels();
template const Typed<BFloat16>& find_kernels();
template const Winograd<float>& find_kernels();
template const Winograd<BFloat16>& find_kernels();

const Kernels kTable = {
    .block = B,
    .name = TRAINER_LEVEL_NAME,
    .winograd_scratch = winograd_scratch,
    .winograd_weights_scratch = winograd_weights_scratch,
    .sum = sum,
    .sum_of_squares = sum_of_squares,
    .sum_of_absolutes = sum_of_absolutes,
    .gradient_square = gradient_square,
};

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL

// CMake writes this file, which includes every file of ops/.
#include "op_kernels.inl"
