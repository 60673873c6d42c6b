#include "backend/cpu/simd/ops/up_sample.inl"

#include <algorithm>
#include <cmath>
#include <memory>

#include "backend/cpu/ops/kernel_helpers.h"

namespace trainer::backend::cpu {
namespace {

using simd::UpSampleKernels;

// The two pixels of the smaller image that each pixel of the larger image lies between, on one
// axis.
struct Axis {
  std::vector<std::int32_t> before, after;
  std::vector<float> weight;  // the weight of the pixel in `after`
};

Axis make_axis(graph::UpSample::Kind kind, std::int64_t size, std::int64_t factor) {
  Axis axis;
  for (std::int64_t i = 0; i < size * factor; ++i) {
    if (kind == graph::UpSample::Kind::kNearest) {
      axis.before.push_back(static_cast<std::int32_t>(i / factor));
      axis.after.push_back(axis.before.back());
      axis.weight.push_back(0);
      continue;
    }
    const double at = (static_cast<double>(i) + 0.5) / static_cast<double>(factor) - 0.5;
    const auto before = static_cast<std::int64_t>(std::floor(at));
    const auto inside = [size](std::int64_t pixel) {
      return static_cast<std::int32_t>(std::clamp<std::int64_t>(pixel, 0, size - 1));
    };
    axis.before.push_back(inside(before));
    axis.after.push_back(inside(before + 1));
    axis.weight.push_back(static_cast<float>(at - static_cast<double>(before)));
  }
  return axis;
}

struct Tables {
  Axis rows, columns;
  simd::UpSampleShape shape;
};

// Makes the tables for the smaller image `x`.
template <class Op>
std::shared_ptr<const Tables> make_tables(const Op& op, const Shape& x, const Lowering& l) {
  auto tables = std::make_shared<Tables>();
  Tables& t = *tables;
  t.rows = make_axis(op.kind, x[1], op.height);
  t.columns = make_axis(op.kind, x[2], op.width);
  t.shape = {x[0] * l.machine().count_blocks(x[3]),
             x[1],
             x[2],
             x[1] * op.height,
             x[2] * op.width,
             l.machine().block,
             t.rows.before.data(),
             t.rows.after.data(),
             t.columns.before.data(),
             t.columns.after.data(),
             t.rows.weight.data(),
             t.columns.weight.data()};
  return tables;
}

}  // namespace

template <>
void lower(const graph::UpSample& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand y = l.output(0, Layout::kBlocked);
  const auto tables = make_tables(op, x.shape, l);
  emit_kernels<UpSampleKernels>(
      l, x.type, [=]<class T>(const CallContext& c, const UpSampleKernels<T>& kernels) {
        kernels.forward(tables->shape, c.at<T>(x.buffer), c.at<T>(y.buffer));
      });
}

template <>
void lower(const graph::UpSampleBackward& op, Lowering& l) {
  const Operand dy = l.input(0, Layout::kBlocked);
  const Operand dx = l.output(0, Layout::kBlocked);
  const auto tables = make_tables(op, dx.shape, l);
  const BufferId plane = l.scratch(dx.h() * dx.w() * tables->shape.block * kFloatBytes);
  emit_kernels<UpSampleKernels>(
      l, dy.type, [=]<class T>(const CallContext& c, const UpSampleKernels<T>& kernels) {
        kernels.backward(tables->shape, c.at<T>(dy.buffer), c.at<T>(dx.buffer), c.at<float>(plane));
      });
}

}  // namespace trainer::backend::cpu
