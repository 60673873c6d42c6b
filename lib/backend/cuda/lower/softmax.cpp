#include "backend/cuda/kernels/softmax.h"

#include "backend/cuda/program.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::Softmax&, Lowering& l) {
  const Operand x = l.input(0);
  const Operand y = l.output(0);
  l.step("kernel", [=](const StepContext& c) {
    softmax(c.at(x.buffer), c.at(y.buffer), x.type, x.rows(), x.c(), c.stream);
  });
}

template <>
void lower(const graph::SoftmaxBackward&, Lowering& l) {
  const Operand dx = l.output(0);
  const Operand y = l.input_as(0, dx.type), dy = l.input_as(1, dx.type);
  l.step("kernel", [=](const StepContext& c) {
    softmax_backward(c.at(y.buffer), c.at(dy.buffer), c.at(dx.buffer), dx.type, dx.rows(), dx.c(),
                     c.stream);
  });
}

}  // namespace trainer::backend::cuda
