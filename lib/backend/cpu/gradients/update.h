// The update phase sums, clips and applies gradients in one pass over the flat buffers. Each lane
// has a slice of its own, of which it reads the gradients of all lanes and writes no intermediate
// sum.
//
// A sum per NUMA node first would read fewer bytes from other nodes, but write and read one more
// sum per node. With at most four gradients this pays only where a byte from another node costs
// more than six local bytes; the usual ratio is below three. `trainer plan --machine` prints the
// bytes that a step reads across nodes.
#pragma once

#include <span>
#include <vector>

#include "backend/cpu/gradients/gradient_sources.h"
#include "backend/cpu/simd/ops/update.inl"
#include "backend/cpu/variables.h"
#include "base/threads/barrier.h"

namespace trainer::backend::cpu {

// The flat buffers that an update reads and writes.
struct UpdateBuffers {
  float* parameters = nullptr;
  float* slot[3] = {};
  float* average = nullptr;
};

// The factors of a segment's gradient and of its step.
struct UpdateScales {
  float clip = 1;
  float trust = 1;  // used by graph::LambRule
};

// Updates elements [first, last) of the buffers, which belong to this segment, by the sum of
// `gradients`, each of which points to its value for element `first`. Adds to `findings` unless
// that is null.
void update_elements(const simd::Kernels& kernels, const UpdateBuffers& buffers,
                     const Segment& segment, std::int64_t first, std::int64_t last,
                     const UpdateScales& scales, Summands gradients, const Scalars& scalars,
                     simd::UpdateFindings* findings = nullptr);

class UpdatePhase {
 public:
  UpdatePhase(CpuVariables& variables, const simd::Kernels& kernels, int lanes);

  // Returns whether run() must be given the sum: a norm of the whole gradient is needed first.
  bool needs_sum() const { return needs_norm_ || needs_trust_; }
  // All lanes call it at the same time. Each lane has written its lane_slice() of the gradients, or
  // all gradients were written before the last barrier. The parameters are the same bits for any
  // number of lanes.
  void run(int lane, int lanes, Barrier& barrier, const GradientSources& gradients,
           const Scalars& scalars);
  // Returns CallResult::gradient_norm of the last run(), which all lanes must have ended. Its last
  // bits depend on the number of lanes.
  double gradient_norm() const;
  // Returns whether the gradient of the last run() and all parameters after it are finite. A
  // gradient that is not finite counts although it leaves the parameters of some rules finite.
  bool finite() const;
  // Returns whether the gradient of some parameter is clipped by its norm.
  bool clips_by_norm() const { return needs_norm_; }
  // Returns the factors by which run() clips this gradient, one per segment. Call it only if
  // clips_by_norm().
  std::span<const float> clip_scales(const float* gradients);

 private:
  void clip_scales(int lane, int lanes, Barrier& barrier, const float* gradients);
  void trust_ratios(int lane, int lanes, Barrier& barrier, const float* gradients,
                    const Scalars& scalars);
  CpuVariables& variables_;
  UpdateBuffers buffers_;
  const simd::Kernels& kernels_;
  bool needs_norm_ = false, needs_trust_ = false;
  struct Chunk {
    std::size_t segment;
    std::int64_t first, last;
  };
  std::vector<Chunk> chunks_;                    // the parts for partial sums of squares
  std::vector<double> squares_;                  // one per chunk
  std::vector<double> sums_;                     // sums of squares, one per segment
  std::vector<float> scales_;                    // one per segment
  std::vector<simd::LambSquares> lamb_squares_;  // one per chunk
  std::vector<simd::LambSquares> lamb_sums_;     // one per segment
  std::vector<float> trust_;                     // ratios of lamb, one per segment
  std::vector<simd::UpdateFindings> findings_;   // one per lane, by the last run()
};

}  // namespace trainer::backend::cpu
