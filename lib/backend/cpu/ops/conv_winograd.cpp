#include "backend/cpu/ops/own_conv.h"

namespace trainer::backend::cpu {
namespace {

using simd::WinogradShape;

// The number of samples that a choice assumes if it may not depend on that of the call.
constexpr std::int64_t kDefaultSamples = 16;

bool fits(const graph::Window& window, std::int64_t groups) {
  const auto& w = window;
  return w.size[0] == 3 && w.size[1] == 3 && w.stride[0] == 1 && w.stride[1] == 1 &&
         w.dilation[0] == 1 && w.dilation[1] == 1 && groups == 1;
}

// Predicts whether Winograd beats oneDNN's direct convolution by counting multiply-adds and
// weighing the transforms of images and kernel; the weights were fitted to measurements of both
// with AVX-512. `n` is the number of samples to decide for, `direct_rate` the multiply-adds of the
// direct convolution per one in float32.
bool pays(std::int64_t n, const Shape& x, const Shape& y, const Shape& kernel, Direction direction,
          const Machine& machine, double direct_rate) {
  const auto padded = [&machine](std::int64_t channels) {
    return static_cast<double>(machine.count_blocks(channels) * machine.block);
  };
  const bool weights = direction == Direction::kBackwardWeights;
  const double in = padded(kernel[2]), out = padded(kernel[3]);
  const Shape& tiled = direction == Direction::kBackwardData ? x : y;
  const std::int64_t rows = (tiled[1] + 3) / 4, columns = (tiled[2] + 3) / 4;
  const double tiles = static_cast<double>(n * rows * columns);
  const double direct = static_cast<double>(n * y[1] * y[2] * kernel.elements()) / direct_rate;
  const double winograd = tiles * 36 * in * out + (weights ? 300 : 450) * tiles * (in + out) +
                          (weights ? 350 : 850) * in * out;
  return winograd < 0.95 * direct;
}

// The transformed input of a strip should stay in the caches while all output channels are
// computed: it takes 2 MiB at 128 input channels, 8 MiB at 512. Strips of winograd_weights() are
// longer, as each reads and writes the kernel's whole gradient.
constexpr std::int64_t kStripTiles = 112, kGradientStripTiles = 256;

// An output of this size has left a core's share of the caches before the next layer reads it.
constexpr std::int64_t kNonTemporalBytes = 16 << 20;

// A kernel that is small when transformed may be transformed by every thread of a lane.
bool has_small_kernel(const WinogradShape& shape) { return shape.in * shape.out <= 128 * 128; }

// Returns the number of output channels that the kernels compute together.
std::int64_t count_panel_channels(const Lowering& l) {
  return simd::kWinogradPanel * l.machine().block;
}

template <class T>
const simd::Winograd<T>& find_winograd(const Lowering& l) {
  return simd::find_kernels<simd::Winograd<T>>(l.kernels());
}

// Converts a function that returns a number of floats into one that returns bytes.
auto in_bytes(std::int64_t (*floats)(const WinogradShape&)) {
  return [floats](const WinogradShape& shape) { return floats(shape) * 4; };
}

// Adds the instruction that computes y from x with the kernel, which is input 1; bias -1: none.
template <class T>
void emit_winograd(Lowering& l, WinogradShape shape, const graph::Window&, BufferId x,
                   BufferId bias, BufferId y) {
  const BufferId weights = l.input(1, Layout::kPlain).buffer;
  const simd::Kernels* k = &l.kernels();
  const std::int64_t x_sample =
      l.padded_elements({1, shape.h, shape.w, shape.in}, Layout::kBlocked);
  const std::int64_t y_sample =
      l.padded_elements({1, shape.oh, shape.ow, shape.out}, Layout::kBlocked);
  shape.tiles = kStripTiles;
  // Only for rows of whole cache lines, so that no line is stored in two parts.
  shape.non_temporal = sizeof(T) == sizeof(float) && shape.n * y_sample * 4 >= kNonTemporalBytes &&
                       shape.ow * k->block % 16 == 0;
  const bool by_channels = !has_small_kernel(shape) || shape.n < l.machine().threads;
  const auto scratch_bytes = in_bytes(k->winograd_scratch);
  const auto parts = divide_convolution(shape, l.machine().threads,
                                        by_channels ? count_panel_channels(l) : 0, scratch_bytes);
  const BufferId scratch = scratch_for(l, parts, scratch_bytes);
  l.emit(concat("winograd ", k->name),
         [=, run = find_winograd<T>(l).forward](const CallContext& c) {
           run_parts(parts, [&](const ConvPart<WinogradShape>& part) {
             run(part.shape, c.at<T>(x) + part.first_sample * x_sample, c.at<float>(weights),
                 bias >= 0 ? c.at<float>(bias) : nullptr, c.at<T>(y) + part.first_sample * y_sample,
                 c.at<float>(scratch) + part.scratch / 4);
           });
         });
}

}  // namespace

bool winograd_chosen(const Lowering& l, Direction direction, const graph::Window& window,
                     std::int64_t groups, DType type, const Shape& x, const Shape& y,
                     const Shape& kernel) {
  using Choice = ConvolutionAlgorithm;
  if (!fits(window, groups) || l.convolution() == Choice::kDirect) return false;
  if (l.convolution() == Choice::kWinograd) return true;
  // For the gradient of weights, oneDNN first transposes images of bfloat16, which takes a fifth of
  // its speed.
  const double rest = direction == Direction::kBackwardWeights ? 0.8 : 1;
  const double direct_rate = type == DType::kBFloat16 ? rest * l.machine().bf16_rate : 1;
  const std::int64_t n = l.same_for_any_batch() ? kDefaultSamples : x[0];
  return pays(n, x, y, kernel, direction, l.machine(), direct_rate);
}

void lower_winograd(const graph::Conv& op, Lowering& l) {
  with_type(l.input(0).type,
            [&]<class T>() { lower_conv<WinogradShape>(op, l, emit_winograd<T>); });
}

void lower_winograd(const graph::ConvBackwardData& op, Lowering& l) {
  with_type(l.input(0).type,
            [&]<class T>() { lower_conv<WinogradShape>(op, l, emit_winograd<T>); });
}

void lower_winograd(const graph::ConvBackwardWeights& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand dy = l.input(1, Layout::kBlocked);
  const BufferId dkernel = l.output(0, Layout::kPlain).buffer;
  const BufferId dbias = op.bias ? l.output(1, Layout::kPlain).buffer : -1;
  auto shape = make_conv_shape<WinogradShape>(op.window, x, dy);
  shape.tiles = kGradientStripTiles;
  const simd::Kernels* k = &l.kernels();
  const auto scratch_bytes = in_bytes(k->winograd_weights_scratch);
  const auto parts =
      divide_convolution(shape, l.machine().threads, count_panel_channels(l), scratch_bytes);
  const BufferId scratch = scratch_for(l, parts, scratch_bytes);
  with_type(x.type, [&]<class T>() {
    l.emit(
        concat("winograd ", k->name), [=, run = find_winograd<T>(l).weights](const CallContext& c) {
          run_parts(parts, [&](const ConvPart<WinogradShape>& part) {
            run(part.shape, c.at<T>(x.buffer), c.at<T>(dy.buffer), c.at<float>(dkernel),
                dbias >= 0 ? c.at<float>(dbias) : nullptr, c.at<float>(scratch) + part.scratch / 4);
          });
        });
  });
}

}  // namespace trainer::backend::cpu
