#include <cstring>

#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {
namespace {

// Returns whether channels can be cut and joined block by block.
bool whole_blocks(std::int64_t channels, const Lowering& l) {
  return channels % l.machine().block == 0;
}

// The rows that are copied: a sample in blocked layout, a pixel in plain layout.
struct Rows {
  std::int64_t count;
  std::int64_t bytes_per_channel;
};

Rows find_rows(const Operand& x) {
  const std::int64_t size = static_cast<std::int64_t>(size_of(x.type));
  const std::int64_t pixels = x.shape.elements() / (x.n() * x.c());
  if (x.layout == Layout::kBlocked) return {x.n(), pixels * size};
  return {x.n() * pixels, size};
}

}  // namespace

template <>
void lower(const graph::Concat&, Lowering& l) {
  bool blocked = l.input_shape(0).rank() == 4;
  for (std::size_t i = 0; i < l.input_count(); ++i) {
    const Shape shape = l.input_shape(i);
    blocked = blocked && whole_blocks(shape[shape.rank() - 1], l);
  }
  const Layout layout = blocked ? Layout::kBlocked : Layout::kPlain;
  struct Part {
    BufferId buffer;
    std::int64_t offset, bytes;
  };
  std::vector<Operand> inputs;
  for (std::size_t i = 0; i < l.input_count(); ++i) inputs.push_back(l.input(i, layout));
  const Operand y = l.output(0, layout);
  const Rows rows = find_rows(y);
  std::vector<Part> parts;
  std::int64_t offset = 0;
  for (const Operand& x : inputs) {
    parts.push_back({x.buffer, offset, x.c() * rows.bytes_per_channel});
    offset += parts.back().bytes;
  }
  l.emit("copy", [=, total = offset](const CallContext& c) {
    for (const Part& part : parts) {
      for (std::int64_t r = 0; r < rows.count; ++r) {
        std::memcpy(c.at<char>(y.buffer) + r * total + part.offset,
                    c.at<char>(part.buffer) + r * part.bytes, part.bytes);
      }
    }
  });
}

template <>
void lower(const graph::Slice& op, Lowering& l) {
  const Shape shape = l.input_shape(0);
  const std::int64_t channels = shape[shape.rank() - 1];
  const bool blocked = shape.rank() == 4 && whole_blocks(channels, l) &&
                       whole_blocks(op.begin, l) && whole_blocks(op.end, l);
  const Layout layout = blocked ? Layout::kBlocked : Layout::kPlain;
  const Operand x = l.input(0, layout);
  const Operand y = l.output(0, layout);
  const Rows rows = find_rows(x);
  const std::int64_t from = op.begin * rows.bytes_per_channel,
                     total = channels * rows.bytes_per_channel;
  const std::int64_t bytes = (op.end - op.begin) * rows.bytes_per_channel;
  l.emit("copy", [=](const CallContext& c) {
    for (std::int64_t r = 0; r < rows.count; ++r) {
      std::memcpy(c.at<char>(y.buffer) + r * bytes, c.at<char>(x.buffer) + r * total + from, bytes);
    }
  });
}

}  // namespace trainer::backend::cpu
