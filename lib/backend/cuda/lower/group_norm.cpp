#include "backend/cuda/kernels/group_norm.h"

#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {
namespace {

template <class Op>
GroupShape group_shape(const Op& op, const Operand& x) {
  const std::int64_t pixels = x.rows() / x.n(), channels = x.c() / op.groups;
  if (op.per_pixel) return {x.rows(), 1, op.groups, channels, op.epsilon};
  return {x.n(), pixels, op.groups, channels, op.epsilon};
}

}  // namespace

template <>
void lower(const graph::GroupNorm& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input(0, y.type);
  const BufferId gamma = l.input(1).buffer, beta = l.input(2).buffer;
  const GroupShape shape = group_shape(op, x);
  l.emit("kernel", [=](const CallContext& c) {
    group_norm(shape, c.at(x.buffer), c.at<float>(gamma), c.at<float>(beta), c.at(y.buffer), y.type,
               c.stream);
  });
}

template <>
void lower(const graph::GroupNormBackward& op, Lowering& l) {
  const Operand dx = l.output(0);
  const BufferId dgamma = l.output(1).buffer, dbeta = l.output(2).buffer;
  const Operand x = l.input(0, dx.type), dy = l.input(1, dx.type);
  const BufferId gamma = l.input(2).buffer;
  const GroupShape shape = group_shape(op, dx);
  const BufferId scratch = l.scratch(group_norm_scratch(shape));
  l.emit("kernel", [=](const CallContext& c) {
    group_norm_backward(shape, c.at(x.buffer), c.at(dy.buffer), c.at<float>(gamma), c.at(dx.buffer),
                        c.at<float>(dgamma), c.at<float>(dbeta), dx.type, c.at(scratch), c.stream);
  });
}

}  // namespace trainer::backend::cuda
