// Products with a factor that is repeated over the pixels or samples, and their sums.
#include "backend/cpu/simd/ops/multiply.inl"

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {
namespace {

using simd::MultiplyKernels;

// How a factor of shape `part` is repeated over x: [outer, rows, width] and [outer, width].
struct Repeated {
  std::int64_t outer, rows, width;
};

// Returns whether there is one number per sample and channel.
bool is_per_channel(const Shape& x, const Shape& part) {
  return x.rank() == 4 && part.rank() == 4 && part != x;
}

// Repeats a factor of one number per sample and channel for the pixels of a block of channels.
Repeated repeat_channels(const Shape& x, const Lowering& l) {
  return {x[0] * l.machine().count_blocks(x[3]), x[1] * x[2], l.machine().block};
}

Repeated repeat_trailing(const Shape& x, const Shape& part) {
  return {1, x.elements() / part.elements(), part.elements()};
}

}  // namespace

template <>
void lower(const graph::Multiply&, Lowering& l) {
  const Shape shape = l.input_shape(0), part = l.input_shape(1);
  const bool channels = is_per_channel(shape, part);
  if (channels || shape == part) {
    Layout layout = channels ? Layout::kBlocked : l.input(0).layout;
    if (layout == Layout::kPlanar) layout = Layout::kBlocked;
    const Operand x = l.input(0, layout), factor = l.input(1, layout), y = l.output(0, layout);
    const Repeated r =
        channels ? repeat_channels(shape, l) : Repeated{1, 1, l.padded_elements(shape, layout)};
    return emit_kernels<MultiplyKernels>(
        l, x.type, [=]<class T>(const CallContext& c, const MultiplyKernels<T>& kernels) {
          const auto multiply = [&](std::int64_t at, std::int64_t at_factor, const Repeated& size) {
            kernels.multiply(c.at<T>(x.buffer) + at, c.at<T>(factor.buffer) + at_factor,
                             c.at<T>(y.buffer) + at, size.outer, size.rows, size.width);
          };
          over_parts(
              c, channels ? r.outer : r.width, [&](std::int64_t first, std::int64_t count, int) {
                if (!channels) return multiply(first, first, {1, 1, count});
                multiply(first * r.rows * r.width, first * r.width, {count, r.rows, r.width});
              });
        });
  }
  const Operand x = l.input(0, Layout::kPlain), factor = l.input(1, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const Repeated r = repeat_trailing(shape, part);
  emit_kernels<MultiplyKernels>(
      l, x.type, [=]<class T>(const CallContext& c, const MultiplyKernels<T>& kernels) {
        over_parts(c, r.rows, [&](std::int64_t first, std::int64_t count, int) {
          const std::int64_t at = first * r.width;
          kernels.multiply_f32(c.at<T>(x.buffer) + at, c.at<float>(factor.buffer),
                               c.at<T>(y.buffer) + at, count, r.width);
        });
      });
}

template <>
void lower(const graph::SumProduct& op, Lowering& l) {
  const Shape shape = l.input_shape(0);
  const Shape part = op.shape.batched() ? op.shape.with_batch(l.samples()) : op.shape;
  const bool two = l.input_count() == 2;
  const bool channels = is_per_channel(shape, part), whole = shape == part;
  Layout layout = channels ? Layout::kBlocked : Layout::kPlain;
  if (whole) layout = l.input(0).layout;
  if (whole && layout == Layout::kPlanar) layout = Layout::kBlocked;
  const Operand a = l.input(0, layout);
  const BufferId b = two ? l.input(1, layout).buffer : -1;
  const Operand sum = l.output(0, layout);
  Repeated r = channels ? repeat_channels(shape, l) : repeat_trailing(shape, part);
  if (whole) r = {1, 1, l.padded_elements(shape, layout)};
  emit_kernels<MultiplyKernels>(
      l, a.type,
      [=, batched = op.shape.batched()]<class T>(const CallContext& c,
                                                 const MultiplyKernels<T>& kernels) {
        const T *first = c.at<T>(a.buffer), *second = two ? c.at<T>(b) : nullptr;
        if (batched) {
          kernels.sum_product(first, second, c.at<T>(sum.buffer), r.outer, r.rows, r.width);
        } else {
          kernels.sum_product_f32(first, second, c.at<float>(sum.buffer), r.rows, r.width);
        }
      });
}

}  // namespace trainer::backend::cpu
