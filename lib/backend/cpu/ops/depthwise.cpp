// Depthwise convolutions between two batch norms: our own kernels.
#include <cstring>

#include "backend/cpu/ops/depthwise_chains.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {
namespace {

using simd::DepthwiseShape;
using simd::GradientSums;

DepthwiseShape depthwise_shape(const graph::Window& window, const Operand& x, const Lowering& l) {
  const std::int64_t blocks = channels_of(x, l).shape.blocks;
  return {x.n(),
          blocks,
          x.h(),
          x.w(),
          window.output(x.h(), 0),
          window.output(x.w(), 1),
          window.stride[0],
          window.pad_before[0],
          window.pad_before[1],
          0,
          blocks};
}

// Runs run(shape, scratch) for the blocks of each thread of the worker; `scratch` has room for as
// many times `floats`.
template <class Run>
void over_blocks(const RunContext& c, const DepthwiseShape& shape, float* scratch,
                 std::int64_t floats, const Run& run) {
  over_parts(c, shape.blocks, [&](std::int64_t first, std::int64_t count, int thread) {
    DepthwiseShape part = shape;
    part.block_begin = first;
    part.block_end = first + count;
    run(part, scratch + thread * floats);
  });
}

constexpr char kWithNorms[] = " with batch norms";

}  // namespace

bool lower_in_chain(const graph::Conv& op, Lowering& l) {
  DepthwiseChains& chains = l.depthwise_chains();
  const auto left = chains.inputs.find(l.node().inputs[0]);
  if (left == chains.inputs.end()) return false;
  const DepthwiseChains::Input& in = left->second;
  const DepthwiseShape shape = depthwise_shape(op.window, in.x, l);
  const std::int64_t padded = channels_of(in.x, l).padded;
  l.reuse(in.x.buffer);
  reuse(l, in.norm);
  const Buffer kernel = padded_rows(l, 1, in.x.c(), padded);
  const Operand y = l.output(0, Layout::kBlocked);
  const auto moments_bytes = padded * static_cast<std::int64_t>(sizeof(simd::Moments));
  const Buffer moments = l.scratch(moments_bytes), shift = l.scratch(padded * 4);
  chains.moments[l.node().outputs[0]] = {moments, shift};
  const int threads = l.machine().threads;
  const std::int64_t floats = l.kernels().depthwise_scratch(shape);
  const Buffer scratch = l.scratch(floats * threads * 4);
  with_type(y.type, [&]<class T>() {
    l.step(concat(l.kernels().name, kWithNorms), [=, run = typed<T>(l).depthwise](
                                                     const RunContext& c) {
      std::memset(c.at<void>(moments), 0, static_cast<std::size_t>(moments_bytes));
      over_blocks(c, shape, c.at<float>(scratch), floats,
                  [&](const DepthwiseShape& part, float* own) {
                    run(part, c.at<T>(in.x.buffer), in.norm.at(c), c.at<float>(kernel),
                        c.at<T>(y.buffer), c.at<float>(shift), c.at<simd::Moments>(moments), own);
                  });
    });
  });
  return true;
}

// Makes the gradient of the kernel too.
bool lower_in_chain(const graph::ConvBackwardData& op, Lowering& l) {
  DepthwiseChains& chains = l.depthwise_chains();
  const graph::ValueId dy = l.node().inputs[0];
  if (!chains.skips_gradient(dy)) return false;
  const DepthwiseChains::Gradient& g = chains.skipped_gradients.at(dy);
  const DepthwiseChains::Input& in = chains.inputs.at(chains.input_of(dy));
  const DepthwiseShape shape = depthwise_shape(op.window, in.x, l);
  const std::int64_t padded = channels_of(in.x, l).padded;
  reuse(l, in.norm);
  reuse(l, g.norm);
  for (const Buffer buffer :
       {in.x.buffer, in.inverse_std, g.y.buffer, g.dw.buffer, g.p, g.q, g.r}) {
    l.reuse(buffer);
  }
  const Buffer kernel = padded_rows(l, 1, in.x.c(), padded);
  const Operand dx = l.output(0, Layout::kBlocked);
  const Buffer dkernel = l.scratch(9 * padded * 4);
  const auto sums_bytes = padded * static_cast<std::int64_t>(sizeof(GradientSums));
  const Buffer sums = l.scratch(sums_bytes);
  chains.kernel_gradients[dy] = dkernel;
  chains.sums[l.node().outputs[0]] = sums;
  const int threads = l.machine().threads;
  const std::int64_t floats = l.kernels().depthwise_backward_scratch(shape);
  const Buffer scratch = l.scratch(floats * threads * 4);
  with_type(dx.type, [&]<class T>() {
    l.step(concat(l.kernels().name, kWithNorms),
           [=, run = typed<T>(l).depthwise_backward](const RunContext& c) {
             std::memset(c.at<void>(sums), 0, static_cast<std::size_t>(sums_bytes));
             const simd::DepthwiseGradient<T> gradient{
                 c.at<T>(in.x.buffer),
                 c.at<T>(g.y.buffer),
                 c.at<T>(g.dw.buffer),
                 in.norm.at(c),
                 g.norm.at(c),
                 c.at<float>(in.inverse_std),
                 {c.at<float>(g.p), c.at<float>(g.q), c.at<float>(g.r)}};
             over_blocks(c, shape, c.at<float>(scratch), floats,
                         [&](const DepthwiseShape& part, float* own) {
                           run(part, gradient, c.at<float>(kernel), c.at<T>(dx.buffer),
                               c.at<float>(dkernel), c.at<GradientSums>(sums), own);
                         });
           });
  });
  return true;
}

bool lower_in_chain(const graph::ConvBackwardWeights& op, Lowering& l) {
  DepthwiseChains& chains = l.depthwise_chains();
  const auto made = chains.kernel_gradients.find(l.node().inputs[1]);
  if (made == chains.kernel_gradients.end()) return false;
  const Buffer from = made->second, to = l.output(0, Layout::kPlain).buffer;
  l.reuse(from);
  const std::int64_t channels = op.kernel[3], taps = op.kernel.elements() / channels;
  const std::int64_t block = l.machine().block, padded = (channels + block - 1) / block * block;
  l.step("with the gradient of its input", [=](const RunContext& c) {
    const float* row = c.at<float>(from);
    for (std::int64_t t = 0; t < taps; ++t, row += padded) {
      std::copy(row, row + channels, c.at<float>(to) + t * channels);
    }
  });
  return true;
}

}  // namespace trainer::backend::cpu
