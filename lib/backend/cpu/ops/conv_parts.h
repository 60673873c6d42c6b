// Divides a convolution among the threads of a lane.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/lanes/on_threads.h"
#include "backend/cpu/lowering.h"
#include "base/numbers/partition.h"

namespace trainer::backend::cpu {

// The part of one thread. `shape` has its number of samples and its output channels [out_begin,
// out_end).
template <class Shape>
struct ConvPart {
  Shape shape;
  std::int64_t first_sample = 0;
  std::int64_t scratch = 0;  // offset of its own scratch, in bytes
};

// Returns at most one part per thread: of the samples if `panel` is 0, else of the output channels
// in whole panels of `panel` channels. scratch_bytes(shape) returns the scratch of a part.
template <class Shape, class ScratchBytes>
std::vector<ConvPart<Shape>> divide_convolution(const Shape& shape, int threads, std::int64_t panel,
                                                const ScratchBytes& scratch_bytes) {
  const std::int64_t panels = panel == 0 ? shape.n : (shape.out + panel - 1) / panel;
  const std::int64_t count = std::min<std::int64_t>(threads, panels);
  std::vector<ConvPart<Shape>> parts;
  std::int64_t scratch = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto [begin, size] = partition(panels, count, i);
    ConvPart<Shape> part{shape, 0, scratch};
    if (panel == 0) {
      part.first_sample = begin;
      part.shape.n = size;
    } else {
      part.shape.out_begin = begin * panel;
      part.shape.out_end = std::min(shape.out, (begin + size) * panel);
    }
    scratch = align_up(scratch + scratch_bytes(part.shape));
    parts.push_back(part);
  }
  return parts;
}

// Allocates the scratch of the next instruction for all parts.
template <class Shape, class ScratchBytes>
BufferId scratch_for(Lowering& l, const std::vector<ConvPart<Shape>>& parts,
                     const ScratchBytes& scratch_bytes) {
  return l.scratch(parts.back().scratch + scratch_bytes(parts.back().shape));
}

// Calls run(part) for each part, each on a thread of the lane.
template <class Shape, class Run>
void run_parts(const std::vector<ConvPart<Shape>>& parts, const Run& run) {
  if (parts.size() == 1) return run(parts[0]);
  on_threads(static_cast<int>(parts.size()), [&](int i) { run(parts[i]); });
}

}  // namespace trainer::backend::cpu
