// Ops that move numbers: preprocessing, sums, and views and copies of parts.
#include <algorithm>

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/program.h"

namespace trainer::backend::cuda {
namespace {

// The most that the kernel adds up at once.
constexpr std::size_t kMostInputs = 8;

BoxPitch pitch_of(const Operand& image) {
  const std::int64_t pixel = image.c() * static_cast<std::int64_t>(size_of(image.type));
  return {image.h() * image.w() * pixel, image.w() * pixel, pixel};
}

// A step that copies `bytes` of each row, from and to these offsets and row lengths in bytes.
void copy_rows(Lowering& l, const Operand& from, std::int64_t from_offset, const Operand& to,
               std::int64_t to_offset, std::int64_t bytes) {
  const auto element = static_cast<std::int64_t>(size_of(from.type));
  const BoxPitch from_pitch{from.c() * element, 0, 0}, to_pitch{to.c() * element, 0, 0};
  const std::int64_t rows = from.rows();
  l.step("copy", [=](const StepContext& c) {
    copy_box(c.at<std::byte>(from.buffer) + from_offset, from_pitch,
             c.at<std::byte>(to.buffer) + to_offset, to_pitch, rows, 1, 1, bytes, c.stream);
  });
}

}  // namespace

void lower(const graph::Preprocess& op, Lowering& l) {
  const Operand x = l.input(0);
  const Operand y = l.output(0);
  std::vector<float> a, b;
  for (std::size_t i = 0; i < op.mean.size(); ++i) {
    a.push_back(op.scale / op.std[i]);
    b.push_back(-op.mean[i] / op.std[i]);
  }
  const BufferId scale = l.constant(a), shift = l.constant(b);
  l.step("kernel", [=, reverse = op.reverse_channels](const StepContext& c) {
    preprocess(c.at(x.buffer), x.type, c.at(y.buffer), y.type, c.at<float>(scale),
               c.at<float>(shift), x.rows(), x.c(), reverse, c.stream);
  });
}

void lower(const graph::Add&, Lowering& l) {
  const Operand y = l.output(0);
  std::vector<BufferId> inputs;
  for (std::size_t i = 0; i < l.input_count(); ++i) {
    inputs.push_back(l.input_as(i, y.type).buffer);
  }
  for (const BufferId input : inputs) l.use(input);
  l.use(y.buffer);
  l.step("kernel", [=](const StepContext& c) {
    std::vector<const void*> from;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      from.push_back(c.at(inputs[i]));
      if (from.size() < kMostInputs && i + 1 < inputs.size()) continue;
      add(from, c.at(y.buffer), y.type, y.elements(), c.stream);
      from.assign(1, c.at(y.buffer));
    }
  });
}

void lower(const graph::Concat&, Lowering& l) {
  const Operand y = l.output(0);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < l.input_count(); ++i) {
    const Operand x = l.input_as(i, y.type);
    l.use(y.buffer);
    const std::int64_t bytes = x.c() * static_cast<std::int64_t>(size_of(x.type));
    copy_rows(l, x, 0, y, offset, bytes);
    offset += bytes;
  }
}

void lower(const graph::Slice& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input_as(0, y.type);
  const auto element = static_cast<std::int64_t>(size_of(x.type));
  copy_rows(l, x, op.begin * element, y, 0, (op.end - op.begin) * element);
}

void lower(const graph::Reshape& op, Lowering& l) {
  Operand y = l.input_as(0, l.output_type(0));
  y.shape = op.shape.with_batch(l.samples());
  l.alias_output(0, y);
}

void lower(const graph::ZeroPad& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input_as(0, y.type);
  const BoxPitch from = pitch_of(x), to = pitch_of(y);
  const std::int64_t offset = op.top * to.row + op.left * to.pixel;
  l.step("copy", [=](const StepContext& c) {
    check(cudaMemsetAsync(c.at(y.buffer), 0, static_cast<std::size_t>(y.bytes()), c.stream),
          "cudaMemsetAsync");
    copy_box(c.at(x.buffer), from, c.at<std::byte>(y.buffer) + offset, to, x.n(), x.h(), x.w(),
             from.pixel, c.stream);
  });
}

void lower(const graph::Crop& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input_as(0, y.type);
  const BoxPitch from = pitch_of(x), to = pitch_of(y);
  const std::int64_t offset = op.top * from.row + op.left * from.pixel;
  l.step("copy", [=](const StepContext& c) {
    copy_box(c.at<std::byte>(x.buffer) + offset, from, c.at(y.buffer), to, y.n(), y.h(), y.w(),
             to.pixel, c.stream);
  });
}

}  // namespace trainer::backend::cuda
