#include "backend/cpu/ops/conv_amx.h"

#include <algorithm>
#include <array>

#include "backend/cpu/ops/conv_parts.h"
#include "backend/cpu/ops/kernel_helpers.h"

namespace trainer::backend::cpu {
namespace {

using simd::AmxKernels;
using simd::AmxShape;
using simd::BFloat16;

// With fewer channels, most of a tile would be padding.
constexpr std::int64_t kMinChannels = 16;

AmxShape make_shape(const graph::Window& window, const Shape& x, const Shape& y) {
  return {.n = x[0],
          .h = x[1],
          .w = x[2],
          .oh = y[1],
          .ow = y[2],
          .kh = window.size[0],
          .kw = window.size[1],
          .dh = window.dilation[0],
          .dw = window.dilation[1],
          .top = window.pad_before[0],
          .left = window.pad_before[1],
          .in = x[3],
          .out = y[3],
          .out_end = y[3]};
}

// Returns the padding before the gradient with which the turned taps meet the pixels of forward.
std::array<std::int64_t, 2> turned_padding(const graph::Window& w) {
  return {(w.size[0] - 1) * w.dilation[0] - w.pad_before[0],
          (w.size[1] - 1) * w.dilation[1] - w.pad_before[1]};
}

// Adds the instruction that computes y from x with the kernel, which is input 1; bias -1: none.
void emit_convolution(Lowering& l, const AmxShape& shape, BufferId x, BufferId bias, BufferId y) {
  const AmxKernels* k = l.machine().amx;
  const BufferId kernel = l.packed_weights(
      1, shape.transposed ? "amx turned" : "amx", k->kernel_bytes(shape),
      [k, shape](const float* from, std::byte* to) {
        return [=] { k->pack_kernel(shape, from, reinterpret_cast<BFloat16*>(to)); };
      });
  const auto parts = divide_convolution(shape, l.machine().threads, 0, k->scratch_bytes);
  const BufferId scratch = scratch_for(l, parts, k->scratch_bytes);
  const std::int64_t x_sample =
      l.padded_elements({1, shape.h, shape.w, shape.in}, Layout::kBlocked);
  const std::int64_t y_sample =
      l.padded_elements({1, shape.oh, shape.ow, shape.out}, Layout::kBlocked);
  l.emit("amx", [=](const CallContext& c) {
    run_parts(parts, [&](const ConvPart<AmxShape>& part) {
      k->convolution(part.shape, c.at<BFloat16>(x) + part.first_sample * x_sample,
                     c.at<BFloat16>(kernel), bias >= 0 ? c.at<float>(bias) : nullptr,
                     c.at<BFloat16>(y) + part.first_sample * y_sample,
                     c.at<char>(scratch) + part.scratch);
    });
  });
}

}  // namespace

bool amx_chosen(const Lowering& l, const graph::Window& window, std::int64_t groups, DType type,
                const Shape& kernel) {
  const auto turned = turned_padding(window);
  return l.machine().amx != nullptr && type == DType::kBFloat16 && groups == 1 &&
         window.stride[0] == 1 && window.stride[1] == 1 &&
         std::min(kernel[2], kernel[3]) >= kMinChannels &&
         std::min(window.pad_before[0], window.pad_before[1]) >= 0 &&
         std::min(turned[0], turned[1]) >= 0;
}

void lower_amx(const graph::Conv& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked);
  const BufferId bias = op.bias ? l.input(2, Layout::kPlain).buffer : -1;
  const Operand y = l.output(0, Layout::kBlocked);
  AmxShape shape = make_shape(op.window, x.shape, y.shape);
  shape.activation = fused_activation(op.activation);
  shape.alpha = op.activation.alpha;
  emit_convolution(l, shape, x.buffer, bias, y.buffer);
  if (is_fusable(op.activation)) return;
  l.use(y.buffer);
  activate(l, op.activation, y, y);
}

// The gradient is the same convolution with turned kernels, over dy with turned_padding().
void lower_amx(const graph::ConvBackwardData& op, Lowering& l) {
  const Operand dy = l.input(0, Layout::kBlocked);
  const Operand dx = l.output(0, Layout::kBlocked);
  AmxShape shape = make_shape(op.window, dy.shape, dx.shape);
  const auto turned = turned_padding(op.window);
  shape.top = turned[0];
  shape.left = turned[1];
  shape.transposed = true;
  emit_convolution(l, shape, dy.buffer, -1, dx.buffer);
}

void lower_amx(const graph::ConvBackwardWeights& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand dy = l.input(1, Layout::kBlocked);
  const BufferId dkernel = l.output(0, Layout::kPlain).buffer;
  const BufferId dbias = op.bias ? l.output(1, Layout::kPlain).buffer : -1;
  const AmxKernels* k = l.machine().amx;
  const auto parts =
      divide_convolution(make_shape(op.window, x.shape, dy.shape), l.machine().threads,
                         simd::kAmxPanel, k->weights_scratch_bytes);
  const BufferId scratch = scratch_for(l, parts, k->weights_scratch_bytes);
  l.emit("amx", [=](const CallContext& c) {
    run_parts(parts, [&](const ConvPart<AmxShape>& part) {
      k->weights(part.shape, c.at<BFloat16>(x.buffer), c.at<BFloat16>(dy.buffer),
                 c.at<float>(dkernel), dbias >= 0 ? c.at<float>(dbias) : nullptr,
                 c.at<char>(scratch) + part.scratch);
    });
  });
}

}  // namespace trainer::backend::cpu
