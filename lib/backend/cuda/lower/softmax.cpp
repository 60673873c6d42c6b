#include "backend/cuda/kernels/enqueue.h"
#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::Softmax& op, Lowering& l) {
  const Operand x = l.input(0);
  const Operand y = l.output(0);
  l.emit("kernel", [=, extents = Extents{.n = x.rows(), .c = x.c()}](const CallContext& c) {
    enqueue(op, {c.at(x.buffer)}, c.at(y.buffer), x.type, extents, c.stream);
  });
}

template <>
void lower(const graph::SoftmaxBackward& op, Lowering& l) {
  const Operand dx = l.output(0);
  const Operand y = l.input(0, dx.type), dy = l.input(1, dx.type);
  l.emit("kernel", [=, extents = Extents{.n = dx.rows(), .c = dx.c()}](const CallContext& c) {
    enqueue(op, {c.at(y.buffer), c.at(dy.buffer)}, c.at(dx.buffer), dx.type, extents, c.stream);
  });
}

}  // namespace trainer::backend::cuda
