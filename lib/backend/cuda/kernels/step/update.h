// The update phase over the flat buffers of backend::Flat: all segments in one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "backend/cuda/kernels/step.h"
#include "graph/ops/update.h"

namespace trainer::backend::cuda {

template <class Rule, std::size_t kIndex = 0>
constexpr std::int32_t rule_index() {
  if constexpr (std::is_same_v<Rule, std::variant_alternative_t<kIndex, graph::UpdateRule>>) {
    return static_cast<std::int32_t>(kIndex);
  } else {
    return rule_index<Rule, kIndex + 1>();
  }
}
// The index of a kind of rule in graph::UpdateRule.
template <class Rule>
inline constexpr std::int32_t kRule = rule_index<Rule>();

// One parameter of the flat buffers, in device memory; built by the host from backend::Segment.
struct UpdateSegment {
  std::int64_t offset = 0, count = 0;
  std::int32_t rule = 0;  // its index in graph::UpdateRule, see kRule
  float momentum = 0, rho = 0, beta_1 = 0, beta_2 = 0, epsilon = 0;
  std::int32_t nesterov = 0, centered = 0, amsgrad = 0, ema_warm_up = 0;  // 0 or 1
  float l1 = 0, l2 = 0, weight_decay = 0, learning_rate_multiplier = 1, ema = 0;
  graph::Clip clip;
  std::int32_t slots = 0;
  std::int32_t average = 0;  // 0 or 1
  std::uint64_t updates_before = 0;
};
UpdateSegment make_update_segment(const graph::Update& update, std::int64_t offset,
                                  std::int64_t count, int slots, bool average);

struct UpdateBuffers {
  float* parameters = nullptr;
  const float* gradients = nullptr;  // multiplied by the loss scale
  float* slots[3] = {};
  float* average = nullptr;
};

// The factors of a segment's gradient and of its step, one number per segment; null: all 1.
struct SegmentScales {
  const float* clip = nullptr;   // the result of clip_scales()
  const float* trust = nullptr;  // the result of trust_ratios(), for graph::LambRule
};

// Threads work on chunks of kUpdateChunk elements; `chunks` is the table that make_chunks fills:
// one entry per block, each for one segment.
inline constexpr std::int64_t kUpdateChunk = 4096;
struct UpdateChunk {
  std::int32_t segment = 0;
  std::int32_t padding = 0;
  std::int64_t first = 0, last = 0;  // elements of the flat buffers
};
std::vector<UpdateChunk> make_chunks(std::span<const UpdateSegment> segments);

// Sets state->overflowed to 0 if all gradients are finite and to 1 otherwise. Used only with a loss
// scale.
void check_gradients(const float* gradients, std::int64_t count, StepState* state,
                     cudaStream_t stream);
// Decides on the device what this call does. Without ranks `trailer` is null and the call's own
// all_finite counts, otherwise trailer[0] (the number of ranks that are not finite) must be 0.
// updates_now = scalars->apply and finite and not stopped and not overflowed; writes
// result->finite and result->skipped, and NaN as the gradient_norm; `stopped` follows
// backend::Scalars::stop_when_not_finite. With `dynamic_loss_scale` the scale is halved (not
// below 1) after an overflow and doubled (up to 2^24) after 2000 updates without one.
void decide_update(const float* trailer, bool dynamic_loss_scale, const StepScalars* scalars,
                   StepState* state, DeviceResult* result, cudaStream_t stream);
// Begins a call: finite and all_finite from the results of its parts and from the calls before
// (scalars->accumulate; stopped).
void settle_finite(const DeviceResult* result, const StepScalars* scalars, StepState* state,
                   cudaStream_t stream);

// squares[i] = sum over chunk i of (g / gradients_scale + 2 l2 w + l1 sign(w))^2, in double.
void gradient_squares(const UpdateSegment* segments, const UpdateChunk* chunks, std::int64_t count,
                      const UpdateBuffers& buffers, const StepState* state, double* squares,
                      cudaStream_t stream);
// clip_scales[s] of each segment from the squares, as lib/backend/cpu/gradients/update.cpp.
void clip_scales(const UpdateSegment* segments, std::int64_t segment_count,
                 const UpdateChunk* chunks, std::int64_t chunk_count, const double* squares,
                 float* scales, cudaStream_t stream);
// Sums of squares, of the decayed parameters and of the steps before the learning rate.
struct LambSquares {
  double parameter, step;
};
// squares[i] of each chunk i of a segment by graph::LambRule, if state->updates_now; nothing is
// updated yet. clip_scales may be null: all 1.
void lamb_squares(const UpdateSegment* segments, const UpdateChunk* chunks, std::int64_t count,
                  const UpdateBuffers& buffers, const float* clip_scales,
                  const StepScalars* scalars, const StepState* state, LambSquares* squares,
                  cudaStream_t stream);
// ratios[s] = norm of the parameter / norm of its step for each segment by graph::LambRule, 1 when
// one of the norms is 0, if state->updates_now.
void trust_ratios(const UpdateSegment* segments, std::int64_t segment_count,
                  const UpdateChunk* chunks, std::int64_t chunk_count, const LambSquares* squares,
                  const StepState* state, float* ratios, cudaStream_t stream);
// graph::Update of all chunks, if state->updates_now; gradients are divided by
// state->gradients_scale first. squares[i] becomes the sum over chunk i of the squares that
// gradient_squares() takes, if state->updates_now. Formulas and the order of operations are those
// of lib/backend/cpu/simd/update.inl.
void update(const UpdateSegment* segments, const UpdateChunk* chunks, std::int64_t count,
            const UpdateBuffers& buffers, const SegmentScales& scales, const StepScalars* scalars,
            const StepState* state, double* squares, cudaStream_t stream);
// result->gradient_norm = sqrt(sum of squares), if state->updates_now.
void gradient_norm(const double* squares, std::int64_t count, const StepState* state,
                   DeviceResult* result, cudaStream_t stream);

}  // namespace trainer::backend::cuda
