#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {
namespace {

// Adds an instruction that copies `bytes` of each row. The offsets are in bytes.
void copy_rows(Lowering& l, const Operand& from, std::int64_t from_offset, const Operand& to,
               std::int64_t to_offset, std::int64_t bytes) {
  const auto element = static_cast<std::int64_t>(size_of(from.type));
  const BoxPitch from_pitch{from.c() * element, 0, 0}, to_pitch{to.c() * element, 0, 0};
  const std::int64_t rows = from.rows();
  l.emit("copy", [=](const CallContext& c) {
    copy_box(c.at<std::byte>(from.buffer) + from_offset, from_pitch,
             c.at<std::byte>(to.buffer) + to_offset, to_pitch, rows, 1, 1, bytes, c.stream);
  });
}

}  // namespace

template <>
void lower(const graph::Concat&, Lowering& l) {
  const Operand y = l.output(0);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < l.input_count(); ++i) {
    const Operand x = l.input(i, y.type);
    l.use(y.buffer);
    const std::int64_t bytes = x.c() * static_cast<std::int64_t>(size_of(x.type));
    copy_rows(l, x, 0, y, offset, bytes);
    offset += bytes;
  }
}

template <>
void lower(const graph::Slice& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input(0, y.type);
  const auto element = static_cast<std::int64_t>(size_of(x.type));
  copy_rows(l, x, op.begin * element, y, 0, (op.end - op.begin) * element);
}

}  // namespace trainer::backend::cuda
