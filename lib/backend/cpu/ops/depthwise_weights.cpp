// The gradient of the kernels of depthwise convolutions that are not between two batch norms.
#include "backend/cpu/simd/ops/depthwise_weights.inl"

#include <algorithm>

#include "backend/cpu/ops/own_conv.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {

using simd::DepthwiseWeightsKernels;
using simd::DepthwiseWeightsShape;

bool depthwise_weights_chosen(const graph::ConvBackwardWeights& op) {
  const graph::Window& w = op.window;
  const std::int64_t side = w.size[0], stride = w.stride[0];
  return op.kernel[2] == 1 && op.kernel[3] == op.groups && op.groups > 1 && w.size[1] == side &&
         (side == 3 || side == 5 || side == 7) && w.stride[1] == stride && stride <= 2 &&
         w.dilation[0] == 1 && w.dilation[1] == 1 &&
         std::min(w.pad_before[0], w.pad_before[1]) >= 0;
}

void lower_depthwise_weights(const graph::ConvBackwardWeights& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked), dy = l.input(1, Layout::kBlocked);
  const std::int64_t blocks = l.machine().count_blocks(x.c()), channels = x.c();
  const std::int64_t padded = blocks * l.machine().block;
  const DepthwiseWeightsShape shape{.n = x.n(),
                                    .blocks = blocks,
                                    .h = x.h(),
                                    .w = x.w(),
                                    .oh = dy.h(),
                                    .ow = dy.w(),
                                    .side = op.window.size[0],
                                    .stride = op.window.stride[0],
                                    .top = op.window.pad_before[0],
                                    .left = op.window.pad_before[1],
                                    .block_begin = 0,
                                    .block_end = blocks};
  const std::int64_t taps = shape.side * shape.side;
  const BufferId dkernel = l.output(0, Layout::kPlain).buffer;
  const BufferId dbias = op.bias ? l.output(1, Layout::kPlain).buffer : -1;
  // The gradients of padded channels, the kernel's before the bias's.
  const BufferId gradients = l.scratch((taps + 1) * padded * kFloatBytes);
  const std::int64_t floats =
      simd::find_kernels<DepthwiseWeightsKernels<float>>(l.kernels()).scratch(shape);
  const BufferId scratch = l.scratch(floats * l.machine().threads * kFloatBytes);
  emit_kernels<DepthwiseWeightsKernels>(
      l, x.type, [=]<class T>(const CallContext& c, const DepthwiseWeightsKernels<T>& kernels) {
        float *row = c.at<float>(gradients), *bias = row + taps * padded;
        over_parts(c, blocks, [&](std::int64_t first, std::int64_t count, int thread) {
          DepthwiseWeightsShape part = shape;
          part.block_begin = first;
          part.block_end = first + count;
          kernels.gradient(part, c.at<T>(x.buffer), c.at<T>(dy.buffer), row,
                           dbias >= 0 ? bias : nullptr, c.at<float>(scratch) + thread * floats);
        });
        for (std::int64_t t = 0; t < taps; ++t, row += padded) {
          std::copy_n(row, channels, c.at<float>(dkernel) + t * channels);
        }
        if (dbias >= 0) std::copy_n(bias, channels, c.at<float>(dbias));
      });
}

}  // namespace trainer::backend::cpu
