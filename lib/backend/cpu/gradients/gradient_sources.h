// The places of a call's gradients before they are added up. The gradients of joint layers
// (lanes/joint_layers.h) exist once, the gradients of other layers once per lane.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/lanes/lanes.h"
#include "backend/exchange.h"
#include "base/numbers/sum_tree.h"

namespace trainer::backend::cpu {

// The maximum number of buffers that are added up. There is one per lane or, in ordered sums, one
// per root of the tree; there are at most as many roots as micro-batches.
inline constexpr std::size_t kMaxSources = 4096;

// Buffers whose elements are added up in their order, element by element.
using Summands = std::span<const float* const>;

struct GradientSources {
  std::int64_t joint_count = 0;  // elements [0, joint_count) of the flat gradient are joint layers'
  const float* joint = nullptr;  // null: no lane had samples
  // Gradients from element joint_count on: one of each lane that had samples or, ordered, the
  // roots of every lane, in the order of the tree.
  std::vector<const float*> own;
  std::vector<TreeBlock> blocks;  // ordered: the block of each buffer in `own`
  std::size_t lanes = 0;          // the number of lanes that write into `own`

  // Calls add(part, summands) for the parts of `slice` that have the same summands. Each summand
  // points to its value for the first element of the part.
  template <class Add>
  void for_each_part(Slice slice, const Add& add) const {
    const Slice shared{slice.first, std::min(slice.last, joint_count)};
    if (shared.count() > 0) {
      const float* from = joint == nullptr ? nullptr : joint + shared.first;
      add(shared, Summands(&from, joint == nullptr ? 0 : 1));
    }
    const Slice rest{std::max(slice.first, joint_count), slice.last};
    if (rest.count() <= 0) return;
    const float* from[kMaxSources];
    for (std::size_t i = 0; i < own.size(); ++i) from[i] = own[i] + (rest.first - joint_count);
    add(rest, Summands(from, own.size()));
  }
};

}  // namespace trainer::backend::cpu
