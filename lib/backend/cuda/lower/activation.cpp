#include "backend/cuda/kernels/activation.h"

#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::Activate& op, Lowering& l) {
  const Operand x = l.input(0);
  const Operand y = l.output(0);
  l.emit("kernel", [=, activation = op.activation](const CallContext& c) {
    activate(activation, c.at(x.buffer), c.at(y.buffer), x.type, x.elements(), c.stream);
  });
}

template <>
void lower(const graph::ActivateBackward& op, Lowering& l) {
  const Operand dx = l.output(0);
  const Operand s = l.input(0, dx.type), dy = l.input(1, dx.type);
  l.emit("kernel", [=, activation = op.activation](const CallContext& c) {
    activate_backward(activation, c.at(s.buffer), c.at(dy.buffer), c.at(dx.buffer), dx.type,
                      dx.elements(), c.stream);
  });
}

}  // namespace trainer::backend::cuda
