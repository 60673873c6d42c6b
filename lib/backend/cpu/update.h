// The update phase: all lanes' gradients are summed, clipped and applied in one pass over the flat
// buffers, each lane on a slice of its own.
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/lanes.h"
#include "backend/cpu/simd/kernels.h"
#include "backend/cpu/variables.h"

namespace trainer::backend::cpu {

class UpdatePhase {
 public:
  UpdatePhase(CpuVariables& variables, const simd::Kernels& kernels);

  bool empty() const { return variables_.segments().empty(); }
  // Called by every lane at once, after all have written their gradients. `gradients` are flat
  // buffers that are summed in the order given. The parameters are the same bits whatever the
  // number of lanes.
  void run(int lane, int lanes, Barrier& barrier, const std::vector<const float*>& gradients,
           const Scalars& scalars);
  std::int64_t bytes() const;

 private:
  void clip_scales(int lane, int lanes, Barrier& barrier);
  void update(const Segment& segment, std::int64_t first, std::int64_t last, float clip_scale,
              const std::vector<const float*>& gradients, const Scalars& scalars) const;

  CpuVariables& variables_;
  const simd::Kernels& kernels_;
  bool needs_norm_ = false;
  Memory reduced_;  // the summed gradient: with a norm to know first, or with accumulation
  struct Piece {
    std::size_t segment;
    std::int64_t first, last;
  };
  std::vector<Piece> pieces_;    // what the partial sums of squares are taken over
  std::vector<double> squares_;  // one a piece
  std::vector<float> scales_;    // one a segment
};

}  // namespace trainer::backend::cpu
