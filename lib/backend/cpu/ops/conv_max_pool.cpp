// A convolution over few channels with its activation and max pooling, on our own kernel.
#include "backend/cpu/simd/ops/conv_max_pool.inl"

#include <algorithm>

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {
namespace {

using simd::ConvMaxPoolKernels;
using simd::ConvMaxPoolShape;

// `y` is the pooled output.
ConvMaxPoolShape conv_max_pool_shape(const graph::Window& window, bool relu, const Operand& x,
                                     const Shape& kernel, const Operand& y, const Lowering& l) {
  return {.n = x.n(),
          .c = x.c(),
          .h = x.h(),
          .w = x.w(),
          .oc_blocks = l.machine().count_blocks(kernel[3]),
          .kh = kernel[0],
          .kw = kernel[1],
          .top = window.pad_before[0],
          .left = window.pad_before[1],
          .oh = y.h(),
          .ow = y.w(),
          .relu = relu};
}

}  // namespace

template <>
void lower(const ConvMaxPool& group, Lowering& l) {
  const auto& conv = std::get<graph::Conv>(group.node->op);
  const std::vector<graph::ValueId>& pooled = group.pool->outputs;
  const Shape kernel = l.input_shape(1);
  const Operand x = l.input(0, Layout::kPlanar);
  const Operand y = l.result(pooled[0], Layout::kBlocked);
  const ConvMaxPoolShape shape =
      conv_max_pool_shape(conv.window, !conv.activation.linear(), x, kernel, y, l);
  const std::int64_t oc = kernel[3], padded = shape.oc_blocks * l.machine().block;
  const std::int64_t in = x.c() * x.h() * x.w(), out = shape.oh * shape.ow * padded;
  const bool keeps_index = std::get<graph::Pool>(group.pool->op).keep_index;
  const BufferId index =
      keeps_index ? l.result(pooled[1], Layout::kBlocked).buffer : l.scratch(shape.n * out);
  const BufferId weights = padded_rows(l, 1, oc, padded);
  const BufferId bias = conv.bias ? padded_rows(l, 2, oc, padded) : l.zeros(padded * 4);
  const BufferId images = l.scratch(in * l.machine().threads * 4);
  emit_kernels<ConvMaxPoolKernels>(
      l, x.type, [=]<class T>(const CallContext& c, const ConvMaxPoolKernels<T>& kernels) {
        over_parts(c, shape.n, [&](std::int64_t first, std::int64_t count, int thread) {
          ConvMaxPoolShape part = shape;
          part.n = count;
          kernels.forward(part, c.at<T>(x.buffer) + first * in, c.at<float>(weights),
                          c.at<float>(bias), c.at<T>(y.buffer) + first * out,
                          c.at<std::uint8_t>(index) + first * out,
                          c.at<float>(images) + thread * in);
        });
      });
}

template <>
void lower(const ConvMaxPoolBackwardWeights& group, Lowering& l) {
  const auto& conv = std::get<graph::ConvBackwardWeights>(group.node->op);
  const bool relu = !std::get<graph::PoolBackward>(group.pool->op).activation.linear();
  const std::vector<graph::ValueId>& from_pool = group.pool->inputs;
  const Operand x = l.input(0, Layout::kPlanar);
  const Operand dy = l.value(from_pool[0], Layout::kBlocked);
  const Operand index = l.value(from_pool[1]);
  const Operand y = relu ? l.value(from_pool[2], Layout::kBlocked) : dy;
  const ConvMaxPoolShape shape = conv_max_pool_shape(conv.window, relu, x, conv.kernel, dy, l);
  const std::int64_t oc = conv.kernel[3], padded = shape.oc_blocks * l.machine().block;
  const std::int64_t rows = conv.kernel.elements() / oc;
  const BufferId dkernel = l.scratch(rows * padded * 4), dbias = l.scratch(padded * 4);
  const BufferId image = l.scratch(x.c() * x.h() * x.w() * 4);
  const BufferId kernel_out = l.output(0, Layout::kPlain).buffer;
  const BufferId bias_out = conv.bias ? l.output(1, Layout::kPlain).buffer : -1;
  emit_kernels<ConvMaxPoolKernels>(
      l, x.type, [=]<class T>(const CallContext& c, const ConvMaxPoolKernels<T>& kernels) {
        kernels.backward(shape, c.at<T>(x.buffer), c.at<T>(dy.buffer), c.at<T>(y.buffer),
                         c.at<std::uint8_t>(index.buffer), c.at<float>(dkernel), c.at<float>(dbias),
                         c.at<float>(image));
        const float* from = c.at<float>(dkernel);
        for (std::int64_t r = 0; r < rows; ++r) {
          std::copy(from + r * padded, from + r * padded + oc, c.at<float>(kernel_out) + r * oc);
        }
        if (bias_out >= 0)
          std::copy(c.at<float>(dbias), c.at<float>(dbias) + oc, c.at<float>(bias_out));
      });
}

}  // namespace trainer::backend::cpu
