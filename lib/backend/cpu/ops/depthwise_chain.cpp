// A depthwise convolution between two batch norms, forward and backward. Our own kernels compute
// rows of the norms' values in the L1 cache.
#include "backend/cpu/simd/ops/depthwise_chain.inl"

#include <algorithm>

#include "backend/cpu/ops/norm_parts.h"

namespace trainer::backend::cpu {
namespace {

using simd::DepthwiseChainKernels;
using simd::DepthwiseShape;
using simd::GradientSums;

DepthwiseShape depthwise_shape(const graph::Window& window, const Operand& x, const Lowering& l) {
  const std::int64_t blocks = find_channels(x, l).shape.blocks;
  return {.n = x.n(),
          .blocks = blocks,
          .h = x.h(),
          .w = x.w(),
          .oh = window.output(x.h(), 0),
          .ow = window.output(x.w(), 1),
          .stride = window.stride[0],
          .top = window.pad_before[0],
          .left = window.pad_before[1],
          .block_begin = 0,
          .block_end = blocks};
}

const DepthwiseChainKernels<float>& find_float_kernels(const Lowering& l) {
  return simd::find_kernels<DepthwiseChainKernels<float>>(l.kernels());
}

// Calls run(shape, scratch) for the blocks of each thread of the lane. `scratch` has `floats`
// floats per thread.
template <class Run>
void over_blocks(const CallContext& c, const DepthwiseShape& shape, float* scratch,
                 std::int64_t floats, const Run& run) {
  over_parts(c, shape.blocks, [&](std::int64_t first, std::int64_t count, int thread) {
    DepthwiseShape part = shape;
    part.block_begin = first;
    part.block_end = first + count;
    run(part, scratch + thread * floats);
  });
}

}  // namespace

template <>
void lower(const DepthwiseChain& group, Lowering& l) {
  const graph::Node& norm = *group.input.norm;
  const Operand x = l.value(norm.inputs[0], Layout::kBlocked);
  const Channels ch = find_channels(x, l);
  const NormRows rows = norm_rows(l.extra(group.input.coefficients), ch,
                                  std::get<graph::BatchNorm>(norm.op).activation);
  const DepthwiseShape shape = depthwise_shape(std::get<graph::Conv>(group.node->op).window, x, l);
  const BufferId kernel = padded_rows(l, 1, x.c(), ch.padded);
  const Operand y = l.output(0, Layout::kBlocked);
  const MomentRows moments{l.make_extra(group.moments, MomentRows::bytes(ch.padded)), ch.padded};
  const std::int64_t floats = find_float_kernels(l).scratch(shape);
  const BufferId scratch = l.scratch(floats * l.machine().threads * 4);
  emit_kernels<DepthwiseChainKernels>(
      l, y.type,
      [=]<class T>(const CallContext& c, const DepthwiseChainKernels<T>& kernels) {
        moments.clear(c);
        over_blocks(c, shape, c.at<float>(scratch), floats,
                    [&](const DepthwiseShape& part, float* thread_scratch) {
                      kernels.forward(part, c.at<T>(x.buffer), rows.at(c), c.at<float>(kernel),
                                      c.at<T>(y.buffer), moments.shift(c), moments.moments(c),
                                      thread_scratch);
                    });
      },
      " with batch norms");
}

template <>
void lower(const DepthwiseChainBackward& group, Lowering& l) {
  const graph::Node &norm = *group.input.norm, &after = *group.after;
  const Operand x = l.value(norm.inputs[0], Layout::kBlocked);
  const Operand y = l.value(after.inputs[0], Layout::kBlocked);
  const Operand dw = l.value(after.inputs[1], Layout::kBlocked);
  const Channels ch = find_channels(x, l);
  const NormRows rows = norm_rows(l.extra(group.input.coefficients), ch,
                                  std::get<graph::BatchNorm>(norm.op).activation);
  const NormRows after_rows =
      norm_rows(l.extra(group.after_coefficients), ch, group.after_activation);
  const DepthwiseShape shape =
      depthwise_shape(std::get<graph::ConvBackwardData>(group.node->op).window, x, l);
  const BufferId kernel = padded_rows(l, 1, x.c(), ch.padded);
  const Operand dx = l.output(0, Layout::kBlocked);
  const Operand dkernel = l.result(group.weights->outputs[0], Layout::kPlain);
  const std::int64_t taps = dkernel.shape.elements() / ch.count;
  const BufferId padded_dkernel = l.scratch(taps * ch.padded * 4);
  const BufferId sums = l.make_extra(group.sums, gradient_sums_bytes(ch));
  const std::int64_t floats = find_float_kernels(l).backward_scratch(shape);
  const BufferId scratch = l.scratch(floats * l.machine().threads * 4);
  emit_kernels<DepthwiseChainKernels>(
      l, dx.type,
      [=]<class T>(const CallContext& c, const DepthwiseChainKernels<T>& kernels) {
        auto* sum = c.at<GradientSums>(sums);
        std::fill(sum, sum + ch.padded, GradientSums{});
        const simd::DepthwiseGradient<T> gradient{
            c.at<T>(x.buffer),        c.at<T>(y.buffer),
            c.at<T>(dw.buffer),       rows.at(c),
            after_rows.at(c),         rows.row(c, NormRows::kInverseStd),
            after_rows.gradient_at(c)};
        const float* from = c.at<float>(padded_dkernel);
        over_blocks(c, shape, c.at<float>(scratch), floats,
                    [&](const DepthwiseShape& part, float* thread_scratch) {
                      kernels.backward(part, gradient, c.at<float>(kernel), c.at<T>(dx.buffer),
                                       c.at<float>(padded_dkernel), sum, thread_scratch);
                    });
        for (std::int64_t t = 0; t < taps; ++t, from += ch.padded) {
          std::copy(from, from + ch.count, c.at<float>(dkernel.buffer) + t * ch.count);
        }
      },
      " with batch norms");
}

}  // namespace trainer::backend::cpu
