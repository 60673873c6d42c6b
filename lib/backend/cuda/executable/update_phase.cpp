#include "backend/cuda/executable/update_phase.h"

#include <variant>

namespace trainer::backend::cuda {

UpdatePhase::UpdatePhase(CudaVariables& variables) : variables_(variables) {
  std::vector<UpdateSegment> segments;
  for (const Segment& segment : variables.segments()) {
    const graph::Clip::Kind clip = segment.update.clip.kind;
    needs_norm_ =
        needs_norm_ || clip == graph::Clip::Kind::kNorm || clip == graph::Clip::Kind::kGlobalNorm;
    needs_trust_ = needs_trust_ || std::holds_alternative<graph::LambRule>(segment.update.rule);
    segments.push_back(make_update_segment(segment.update, segment.offset, segment.count,
                                           segment.slots, segment.average));
  }
  const std::vector<UpdateChunk> chunks = make_chunks(segments);
  segment_count_ = std::ssize(segments);
  chunk_count_ = std::ssize(chunks);
  const int device = variables.device();
  segments_ = allocate_copy(device, segments.data(), segments.size() * sizeof(UpdateSegment));
  chunks_ = allocate_copy(device, chunks.data(), chunks.size() * sizeof(UpdateChunk));
  squares_ = allocate_device(device, chunks.size() * sizeof(double));
  if (needs_norm_) scales_ = allocate_device(device, segments.size() * sizeof(float));
  if (!needs_trust_) return;
  lamb_squares_ = allocate_device(device, chunks.size() * sizeof(LambSquares));
  trust_ratios_ = allocate_device(device, segments.size() * sizeof(float));
}

std::int64_t UpdatePhase::bytes() const {
  return static_cast<std::int64_t>(segments_.bytes() + chunks_.bytes() + squares_.bytes() +
                                   scales_.bytes() + lamb_squares_.bytes() + trust_ratios_.bytes());
}

UpdateBuffers UpdatePhase::buffers(const float* gradients) const {
  UpdateBuffers buffers;
  buffers.parameters = variables_.parameters();
  buffers.gradients = gradients;
  const Flat& flat = variables_.placement().flat;
  for (int slot = 0; slot < flat.slots; ++slot) buffers.slots[slot] = variables_.slot(slot);
  if (flat.average) buffers.average = variables_.average();
  return buffers;
}

const float* UpdatePhase::enqueue_clip_scales(const float* gradients, const StepState* state,
                                              cudaStream_t stream) {
  const auto* segments = pointer_to<UpdateSegment>(segments_.span());
  const auto* chunks = pointer_to<UpdateChunk>(chunks_.span());
  auto* squares = pointer_to<double>(squares_.span());
  auto* scales = pointer_to<float>(scales_.span());
  gradient_squares(segments, chunks, chunk_count_, buffers(gradients), state, squares, stream);
  clip_scales(segments, segment_count_, chunks, chunk_count_, squares, scales, stream);
  return scales;
}

const float* UpdatePhase::enqueue_trust_ratios(const float* gradients, const float* clip_scales,
                                               const StepScalars* scalars, const StepState* state,
                                               cudaStream_t stream) {
  const auto* segments = pointer_to<UpdateSegment>(segments_.span());
  const auto* chunks = pointer_to<UpdateChunk>(chunks_.span());
  auto* squares = pointer_to<LambSquares>(lamb_squares_.span());
  auto* ratios = pointer_to<float>(trust_ratios_.span());
  lamb_squares(segments, chunks, chunk_count_, buffers(gradients), clip_scales, scalars, state,
               squares, stream);
  trust_ratios(segments, segment_count_, chunks, chunk_count_, squares, state, ratios, stream);
  return ratios;
}

void UpdatePhase::enqueue(const float* gradients, const StepScalars* scalars,
                          const StepState* state, DeviceResult* result, cudaStream_t stream) {
  if (chunk_count_ == 0) return;
  SegmentScales scales;
  if (needs_norm_) scales.clip = enqueue_clip_scales(gradients, state, stream);
  if (needs_trust_) {
    scales.trust = enqueue_trust_ratios(gradients, scales.clip, scalars, state, stream);
  }
  auto* squares = pointer_to<double>(squares_.span());
  update(pointer_to<UpdateSegment>(segments_.span()), pointer_to<UpdateChunk>(chunks_.span()),
         chunk_count_, buffers(gradients), scales, scalars, state, squares, stream);
  gradient_norm(squares, chunk_count_, state, result, stream);
}

}  // namespace trainer::backend::cuda
