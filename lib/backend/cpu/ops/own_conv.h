// Convolutions on our own kernels: those of stride 1, 3x3 by Winograd (simd/winograd*.inl), and in
// bfloat16 on AMX (simd/amx.h); and the gradient of depthwise kernels. Reasons:
// lib/decisions/backend.md#convolution-kernels-of-our-own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "backend/cpu/lanes/on_threads.h"
#include "backend/cpu/ops/kernel_helpers.h"
#include "base/numbers/partition.h"

namespace trainer::backend::cpu {

enum class Direction { kForward, kBackwardData, kBackwardWeights };

// Returns whether such a convolution is computed by Winograd F(4x4, 3x3). A rule decides, not a
// timing, so that the same config always gives the same bits. `x`, `y` and `kernel` have the shapes
// of forward.
bool winograd_chosen(const Lowering& l, Direction direction, const graph::Window& window,
                     std::int64_t groups, DType type, const Shape& x, const Shape& y,
                     const Shape& kernel);
void lower_winograd(const graph::Conv& op, Lowering& l);
void lower_winograd(const graph::ConvBackwardData& op, Lowering& l);
void lower_winograd(const graph::ConvBackwardWeights& op, Lowering& l);

// Returns whether such a convolution is computed on AMX. `kernel` has the shape of forward.
bool amx_chosen(const Lowering& l, const graph::Window& window, std::int64_t groups, DType type,
                const Shape& kernel);
void lower_amx(const graph::Conv& op, Lowering& l);
void lower_amx(const graph::ConvBackwardData& op, Lowering& l);
void lower_amx(const graph::ConvBackwardWeights& op, Lowering& l);

// Returns whether our own kernels compute the gradient of the kernel of a depthwise convolution.
bool depthwise_weights_chosen(const graph::ConvBackwardWeights& op);
void lower_depthwise_weights(const graph::ConvBackwardWeights& op, Lowering& l);

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

// Returns the shape of a convolution of x to y. Shape has the members that WinogradShape and
// AmxShape share.
template <class Shape>
Shape make_conv_shape(const graph::Window& window, const Operand& x, const Operand& y) {
  return {.n = x.n(),
          .h = x.h(),
          .w = x.w(),
          .oh = y.h(),
          .ow = y.w(),
          .top = window.pad_before[0],
          .left = window.pad_before[1],
          .in = x.c(),
          .out = y.c(),
          .out_end = y.c()};
}

// Lowers a convolution of stride 1 by emit(l, shape, window, x, bias, y), which adds the
// instruction that computes y; bias -1: none.
template <class Shape, class Emit>
void lower_conv(const graph::Conv& op, Lowering& l, const Emit& emit) {
  const Operand x = l.input(0, Layout::kBlocked);
  const BufferId bias = op.bias ? l.input(2, Layout::kPlain).buffer : -1;
  const Operand y = l.output(0, Layout::kBlocked);
  Shape shape = make_conv_shape<Shape>(op.window, x, y);
  shape.activation = fused_activation(op.activation);
  shape.alpha = op.activation.alpha;
  emit(l, shape, op.window, x.buffer, bias, y.buffer);
  activate_unfused(l, op.activation, y);
}

// Returns the padding before the gradient with which turned taps meet the pixels of forward.
inline std::array<std::int64_t, 2> turned_padding(const graph::Window& w) {
  return {(w.size[0] - 1) * w.dilation[0] - w.pad_before[0],
          (w.size[1] - 1) * w.dilation[1] - w.pad_before[1]};
}

// Lowers the gradient of the image: the same convolution with turned kernels, over dy.
template <class Shape, class Emit>
void lower_conv(const graph::ConvBackwardData& op, Lowering& l, const Emit& emit) {
  const Operand dy = l.input(0, Layout::kBlocked), dx = l.output(0, Layout::kBlocked);
  Shape shape = make_conv_shape<Shape>(op.window, dy, dx);
  shape.top = turned_padding(op.window)[0];
  shape.left = turned_padding(op.window)[1];
  shape.transposed = true;
  emit(l, shape, op.window, dy.buffer, -1, dx.buffer);
}

// Calls run(part) for each part, each on a thread of the lane.
template <class Shape, class Run>
void run_parts(const std::vector<ConvPart<Shape>>& parts, const Run& run) {
  if (parts.size() == 1) return run(parts[0]);
  on_threads(static_cast<int>(parts.size()), [&](int i) { run(parts[i]); });
}

}  // namespace trainer::backend::cpu
