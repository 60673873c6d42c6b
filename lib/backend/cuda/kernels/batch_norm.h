// Batch normalisation over [rows, c] (NHWC with the batch, height and width as rows). Activations
// are `type`; gamma, beta, statistics and their gradients float32. No atomics: the same bits each
// time. Statistics over several ranks: each rank writes its Moments, the collective brings all
// ranks' together, every rank combines them in rank order. cuDNN's batch norm is not used, because
// it compiles each graph at run time (0.4 to 4 s) and cannot run without a GPU.
// Reasons: lib/decisions/backend.md#batch-norm-computes-its-statistics-itself.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "backend/cuda/kernels/step.h"
#include "base/types.h"
#include "graph/ops/batch_norm.h"

namespace trainer::backend::cuda {

// Bytes of scratch that the functions here need for [rows, c].
std::int64_t batch_norm_scratch(std::int64_t rows, std::int64_t c);

// Per channel of this rank, float32: count, mean and sum of squared distances from the mean, as
// moments[3][c]. One pass over x (Welford, combined by Chan's formula).
void channel_moments(const void* x, DType type, std::int64_t rows, std::int64_t c, float* moments,
                     void* scratch, cudaStream_t stream);
// Combines `ranks` moments[3][c], one after another in memory, in rank order: mean and
// 1 / sqrt(biased variance + epsilon). Ranks with a count of 0 do not count.
void combine_moments(const float* moments, std::int64_t ranks, std::int64_t c, float epsilon,
                     float* mean, float* inverse_std, cudaStream_t stream);
// The statistics of one rank, with the bits of channel_moments() and combine_moments().
void channel_statistics(const void* x, DType type, std::int64_t rows, std::int64_t c, float epsilon,
                        float* mean, float* inverse_std, void* scratch, cudaStream_t stream);
// y = activation((x - mean) * (gamma * inverse_std) + beta).
void normalize(const void* x, const float* gamma, const float* beta, const float* mean,
               const float* inverse_std, const graph::Activation& activation, void* y, DType type,
               std::int64_t rows, std::int64_t c, cudaStream_t stream);

// A mask has a bit for each value of y, which is 1 where activation'(y) is 1 and 0 where it is 0,
// so that a gradient reads no y. A byte has the bits of the values that a thread loads at once.
// Returns whether an activation has a mask.
constexpr bool has_mask(const graph::Activation& activation) {
  using Kind = graph::Activation::Kind;
  return activation.kind == Kind::kRelu || activation.kind == Kind::kRelu6;
}
std::int64_t mask_bytes(DType type, std::int64_t rows, std::int64_t c);

// y = activation(normalize(x) + addend), with the bits of normalize() to `type`, add() and
// activate() one after the other. Writes the mask of y unless it is null.
void normalize_add(const void* x, const void* addend, const float* gamma, const float* beta,
                   const float* mean, const float* inverse_std, const graph::Activation& activation,
                   void* y, std::uint8_t* mask, DType type, std::int64_t rows, std::int64_t c,
                   cudaStream_t stream);

// The gradient g = (dy + dy2) * activation'(y), all of [rows, c].
struct NormGradient {
  const void* dy = nullptr;
  const void* dy2 = nullptr;           // null: dy alone
  const void* y = nullptr;             // null: no activation, or a mask
  const std::uint8_t* mask = nullptr;  // the mask of y
  void* sum = nullptr;                 // g is written to it, unless it is null; may be dy or dy2
};
// The places of the float32 sums over the rows of this rank.
struct NormSums {
  float* dbeta = nullptr;   // [c]: sum g
  float* dgamma = nullptr;  // [c]: sum g * (x - mean) * inverse_std
  // [2 c + 1]: dbeta, dgamma and the number of rows, for the other ranks; null: not written
  float* all = nullptr;
  bool counted = true;  // false: zeros are written, since the rows count as none
};
// Has the bits of add(), activate_backward() and the sums one after the other.
void norm_backward_sums(const void* x, const NormGradient& gradient, const float* mean,
                        const float* inverse_std, const graph::Activation& activation, DType type,
                        std::int64_t rows, std::int64_t c, const NormSums& to, void* scratch,
                        cudaStream_t stream);
// dx = gamma * inverse_std * (g - dbeta / n - xhat * dgamma / n), where `sums` holds dbeta, dgamma
// and the number of rows n of all ranks, [2 c + 1]. The gradient has neither dy2 nor a sum.
void norm_backward(const void* x, const NormGradient& gradient, const float* gamma,
                   const float* mean, const float* inverse_std, const float* sums,
                   const graph::Activation& activation, void* dx, DType type, std::int64_t rows,
                   std::int64_t c, cudaStream_t stream);

// 1 / sqrt(variance + epsilon), for the inference forms, which are normalize() and the two below
// with it.
void compute_inverse_std(const float* variance, float epsilon, float* inverse_std, std::int64_t c,
                         cudaStream_t stream);
// dx = g * gamma * inverse_std.
void norm_inference_backward(const void* dy, const void* y, const float* gamma,
                             const float* inverse_std, const graph::Activation& activation,
                             void* dx, DType type, std::int64_t rows, std::int64_t c,
                             cudaStream_t stream);

// The operands of graph::UpdateStatistics, all of [c].
struct MovingStatistics {
  float *mean = nullptr, *variance = nullptr;                       // moving statistics
  const float *batch_mean = nullptr, *batch_inverse_std = nullptr;  // statistics of the batch
  std::int32_t c = 0;
  float momentum = 0, epsilon = 0;
};
// graph::UpdateStatistics: moving = moving * momentum + batch * (1 - momentum), the batch's
// variance being 1 / inverse_std^2 - epsilon, not below 0. Nothing moves unless state->all_finite;
// then state->moved becomes 1. One launch for many layers.
void update_statistics(std::span<const MovingStatistics> layers, StepState* state,
                       cudaStream_t stream);

// graph::FoldBatchNorm: kernel [elements / c][c] (HWIO) and bias [c] (null: zeros) of a convolution
// followed by the normalisation, float32.
void fold_batch_norm(const float* kernel, const float* bias, const float* gamma, const float* beta,
                     const float* mean, const float* variance, float epsilon, float* folded_kernel,
                     float* folded_bias, std::int64_t elements, std::int64_t c,
                     cudaStream_t stream);

}  // namespace trainer::backend::cuda
