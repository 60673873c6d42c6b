// The update phase: gradients are summed, clipped and applied in one pass over the flat buffers,
// each worker on a slice of its own.
// Reasons: lib/decisions/backend.md#gradients-are-summed-once.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/gradients/gradient_sources.h"
#include "backend/cpu/lanes/worker_threads.h"
#include "backend/cpu/simd/ops/update.inl"
#include "backend/cpu/variables.h"

namespace trainer::backend::cpu {

// Buffers that hold the elements [0, count) of a rule's run, or of several.
struct UpdateBuffers {
  float* parameters = nullptr;
  float* slot[3] = {};
  float* average = nullptr;
};

// What a segment's gradient and step are multiplied by.
struct UpdateScales {
  float clip = 1;
  float trust = 1;  // of graph::LambRule
};

// Updates elements [first, last) of the buffers, which belong to this segment, by the sum of
// `gradients`, each of which points to its number of element `first`. The sum of squares of the
// gradient, as UpdatePhase::gradient_norm() takes it, is added to `gradient_square` unless that is
// null.
void update_elements(const simd::Kernels& kernels, const UpdateBuffers& buffers,
                     const Segment& segment, std::int64_t first, std::int64_t last,
                     const UpdateScales& scales, Summands gradients, const Scalars& scalars,
                     double* gradient_square = nullptr);

class UpdatePhase {
 public:
  UpdatePhase(CpuVariables& variables, const simd::Kernels& kernels, int workers);

  // Returns whether run() must be given the sum: a norm of the whole gradient is needed first.
  bool needs_sum() const { return needs_norm_ || needs_trust_; }
  // Called by every worker at once, after all have written their worker_slice() of the gradients,
  // or all of them before the last barrier. The parameters are the same bits whatever the number of
  // workers.
  void run(int worker, int workers, Barrier& barrier, const GradientSources& gradients,
           const Scalars& scalars);
  // Of the gradient of the last run(), once all workers have ended it: see Numbers::gradient_norm.
  // Its last bits depend on the number of workers.
  double gradient_norm() const;
  // Returns whether the gradient of some parameter is clipped by its norm.
  bool clips_by_norm() const { return needs_norm_; }
  // What run() multiplies this gradient by, one per segment; only when clips_by_norm().
  std::span<const float> clip_scales(const float* gradients);

 private:
  void clip_scales(int worker, int workers, Barrier& barrier, const float* gradients);
  void trust_ratios(int worker, int workers, Barrier& barrier, const float* gradients,
                    const Scalars& scalars);
  CpuVariables& variables_;
  UpdateBuffers buffers_;
  const simd::Kernels& kernels_;
  bool needs_norm_ = false, needs_trust_ = false;
  struct Chunk {
    std::size_t segment;
    std::int64_t first, last;
  };
  std::vector<Chunk> chunks_;                    // what the partial sums of squares are taken over
  std::vector<double> squares_;                  // one per chunk
  std::vector<double> sums_;                     // of squares, one per segment
  std::vector<float> scales_;                    // one per segment
  std::vector<simd::LambSquares> lamb_squares_;  // one per chunk
  std::vector<simd::LambSquares> lamb_sums_;     // one per segment
  std::vector<float> trust_;                     // of lamb, one per segment
  std::vector<double> gradient_squares_;         // of the last run(), one per worker
};

}  // namespace trainer::backend::cpu
