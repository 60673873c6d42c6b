// The update of all parameters of a model on the device.
#pragma once

#include "backend/cuda/kernels/step/update.h"
#include "backend/cuda/variables.h"

namespace trainer::backend::cuda {

class UpdatePhase {
 public:
  explicit UpdatePhase(CudaVariables& variables);

  // Enqueues the update by these flat gradients. It changes nothing unless decide_update() set
  // state->updates_now. Sets result->gradient_norm if it does.
  void enqueue(const float* gradients, const StepScalars* scalars, const StepState* state,
               DeviceResult* result, cudaStream_t stream);
  // Returns whether the gradient of a parameter is clipped by its norm.
  bool needs_norm() const { return needs_norm_; }
  // Enqueues the computation of the clip scales, one per segment, and returns where they will be.
  const float* enqueue_clip_scales(const float* gradients, const StepState* state,
                                   cudaStream_t stream);
  std::int64_t segments() const { return segment_count_; }
  std::int64_t bytes() const;  // bytes of device memory

 private:
  UpdateBuffers buffers(const float* gradients) const;
  // Enqueues the computation of the trust ratios of graph::LambRule and returns where they will be.
  const float* enqueue_trust_ratios(const float* gradients, const float* clip_scales,
                                    const StepScalars* scalars, const StepState* state,
                                    cudaStream_t stream);

  CudaVariables& variables_;
  std::int64_t segment_count_ = 0, chunk_count_ = 0;
  bool needs_norm_ = false, needs_trust_ = false;
  Buffer segments_, chunks_, squares_, scales_;
  Buffer lamb_squares_, trust_ratios_;  // empty without graph::LambRule
};

}  // namespace trainer::backend::cuda
