#include "backend/cuda/kernels/enqueue.h"
#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::UpSample& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input(0, y.type);
  l.emit("kernel", [=, extents = Extents{x.n(), x.h(), x.w(), x.c()}](const CallContext& c) {
    enqueue(op, {c.at(x.buffer)}, c.at(y.buffer), y.type, extents, c.stream);
  });
}

template <>
void lower(const graph::UpSampleBackward& op, Lowering& l) {
  const Operand dx = l.output(0);
  const Operand dy = l.input(0, dx.type);
  l.emit("kernel", [=, extents = Extents{dx.n(), dx.h(), dx.w(), dx.c()}](const CallContext& c) {
    enqueue(op, {c.at(dy.buffer)}, c.at(dx.buffer), dx.type, extents, c.stream);
  });
}

}  // namespace trainer::backend::cuda
