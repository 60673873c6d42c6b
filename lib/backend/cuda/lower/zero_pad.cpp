#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {
namespace {

// Returns the pixels of a row; tokens are an image of one column.
std::int64_t width(const Operand& image) { return image.shape.rank() == 3 ? 1 : image.w(); }

BoxPitch make_pitch(const Operand& image) {
  const std::int64_t pixel = image.c() * static_cast<std::int64_t>(size_of(image.type));
  return {image.h() * width(image) * pixel, width(image) * pixel, pixel};
}

}  // namespace

template <>
void lower(const graph::ZeroPad& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input(0, y.type);
  const BoxPitch from = make_pitch(x), to = make_pitch(y);
  const std::int64_t offset = op.top * to.row + op.left * to.pixel;
  l.add_traffic(x.bytes());
  l.emit("copy", [=](const CallContext& c) {
    fill_zeros(c.at(y.buffer), static_cast<std::size_t>(y.bytes()), c.stream);
    copy_box(c.at(x.buffer), from, c.at<std::byte>(y.buffer) + offset, to, x.n(), x.h(), width(x),
             from.pixel, c.stream);
  });
}

template <>
void lower(const graph::Crop& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input(0, y.type);
  const BoxPitch from = make_pitch(x), to = make_pitch(y);
  const std::int64_t offset = op.top * from.row + op.left * from.pixel;
  l.emit("copy", [=](const CallContext& c) {
    copy_box(c.at<std::byte>(x.buffer) + offset, from, c.at(y.buffer), to, y.n(), y.h(), width(y),
             to.pixel, c.stream);
  });
}

}  // namespace trainer::backend::cuda
