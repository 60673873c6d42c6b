#include <algorithm>

#include "backend/cpu/ops/own_conv.h"

namespace trainer::backend::cpu {
namespace {

using simd::AmxKernels;
using simd::AmxShape;
using simd::BFloat16;

// With fewer channels, most of a tile would be padding.
constexpr std::int64_t kMinChannels = 16;

void set_window(AmxShape& shape, const graph::Window& window) {
  shape.kh = window.size[0];
  shape.kw = window.size[1];
  shape.dh = window.dilation[0];
  shape.dw = window.dilation[1];
}

// Adds the instruction that computes y from x with the kernel, which is input 1; bias -1: none.
void emit_amx(Lowering& l, AmxShape shape, const graph::Window& window, BufferId x, BufferId bias,
              BufferId y) {
  set_window(shape, window);
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

void lower_amx(const graph::Conv& op, Lowering& l) { lower_conv<AmxShape>(op, l, emit_amx); }

void lower_amx(const graph::ConvBackwardData& op, Lowering& l) {
  lower_conv<AmxShape>(op, l, emit_amx);
}

void lower_amx(const graph::ConvBackwardWeights& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand dy = l.input(1, Layout::kBlocked);
  const BufferId dkernel = l.output(0, Layout::kPlain).buffer;
  const BufferId dbias = op.bias ? l.output(1, Layout::kPlain).buffer : -1;
  const AmxKernels* k = l.machine().amx;
  AmxShape shape = make_conv_shape<AmxShape>(op.window, x, dy);
  set_window(shape, op.window);
  const auto parts =
      divide_convolution(shape, l.machine().threads, simd::kAmxPanel, k->weights_scratch_bytes);
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
