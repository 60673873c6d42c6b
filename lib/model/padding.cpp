#include "model/padding.h"

#include <algorithm>

namespace trainer::model {
namespace {

// Keras's "same" gives ceil(input / stride) outputs; the odd pixel goes below and to the right.
std::array<std::int64_t, 2> pad_same(std::int64_t input, std::int64_t size, std::int64_t stride,
                                     std::int64_t dilation) {
  const std::int64_t output = (input + stride - 1) / stride;
  const std::int64_t extent = (size - 1) * dilation + 1;
  const std::int64_t total = std::max<std::int64_t>((output - 1) * stride + extent - input, 0);
  return {total / 2, total - total / 2};
}

}  // namespace

graph::Window resolve_window(const config::Pair& size, const config::Pair& strides,
                             const config::Pair& dilation, const config::Padding& padding,
                             const Shape& input) {
  graph::Window window;
  window.size = {size.height, size.width};
  window.stride = {strides.height, strides.width};
  window.dilation = {dilation.height, dilation.width};
  if (padding.kind == config::Padding::Kind::kExplicit) {
    window.pad_before = {padding.pixels[0], padding.pixels[2]};
    window.pad_after = {padding.pixels[1], padding.pixels[3]};
  }
  // The op's own rule rejects inputs that are not images, with a reason.
  if (padding.kind == config::Padding::Kind::kSame && input.rank() == 4) {
    for (std::size_t axis = 0; axis < 2; ++axis) {
      if (window.stride[axis] < 1) continue;
      const auto pads =
          pad_same(input[axis + 1], window.size[axis], window.stride[axis], window.dilation[axis]);
      window.pad_before[axis] = pads[0];
      window.pad_after[axis] = pads[1];
    }
  }
  return window;
}

}  // namespace trainer::model
