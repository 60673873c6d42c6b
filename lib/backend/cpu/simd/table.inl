// All kernels and their table, for one instruction set. The including file defines TRAINER_BLOCK and
// opens the namespace, after <immintrin.h>. No other header with inline functions may be included: the linker could
// keep this instruction set's copy for everyone.
#include "backend/cpu/simd/vector.inl"
#include "backend/cpu/simd/stem.inl"
#include "backend/cpu/simd/winograd_transforms.inl"
#include "backend/cpu/simd/winograd.inl"
#include "backend/cpu/simd/winograd_weights.inl"
#include "backend/cpu/simd/pool.inl"
#include "backend/cpu/simd/norm.inl"
#include "backend/cpu/simd/depthwise.inl"
#include "backend/cpu/simd/memory.inl"
#include "backend/cpu/simd/multiply.inl"
#include "backend/cpu/simd/activation.inl"
#include "backend/cpu/simd/group_norm.inl"
#include "backend/cpu/simd/up_sample.inl"
#include "backend/cpu/simd/update.inl"

template <class T>
constexpr Typed<T> typed() {
  return {preprocess<std::uint8_t, T>,
          preprocess<float, T>,
          stem_forward<T>,
          stem_backward<T>,
          max_pool<T>,
          max_pool_backward<T>,
          average_pool<T>,
          average_pool_backward<T>,
          global_average<T>,
          global_average_backward<T>,
          global_max<T>,
          global_max_backward<T>,
          moments<T>,
          scale_shift<T>,
          add_to_norm<T>,
          add_two_norms<T>,
          norm_sums<T>,
          gate_gradient<T>,
          gate_gradient_sums<T>,
          norm_backward<T>,
          depthwise<T>,
          depthwise_backward<T>,
          add<T>,
          dropout<T>,
          to_f32<T>,
          multiply<T>,
          multiply_f32<T>,
          add_bias<T>,
          sum_product<T>,
          sum_product_f32<T>,
          hard_sigmoid<T>,
          hard_sigmoid_backward<T>,
          selu<T>,
          selu_backward<T>,
          group_norm<T>,
          group_norm_backward<T>,
          up_sample<T>,
          up_sample_backward<T>};
}
