#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/softmax.h"
#include "backend/cuda/program.h"

namespace trainer::backend::cuda {

void lower(const graph::Activate& op, Lowering& l) {
  const Operand x = l.input(0);
  const Operand y = l.output(0);
  l.step("kernel", [=, activation = op.activation](const StepContext& c) {
    activate(activation, c.at(x.buffer), c.at(y.buffer), x.type, x.elements(), c.stream);
  });
}

void lower(const graph::ActivateBackward& op, Lowering& l) {
  const Operand dx = l.output(0);
  const Operand s = l.input_as(0, dx.type), dy = l.input_as(1, dx.type);
  l.step("kernel", [=, activation = op.activation](const StepContext& c) {
    activate_backward(activation, c.at(s.buffer), c.at(dy.buffer), c.at(dx.buffer), dx.type,
                      dx.elements(), c.stream);
  });
}

void lower(const graph::Softmax&, Lowering& l) {
  const Operand x = l.input(0);
  const Operand y = l.output(0);
  l.step("kernel", [=](const StepContext& c) {
    softmax(c.at(x.buffer), c.at(y.buffer), x.type, x.rows(), x.c(), c.stream);
  });
}

void lower(const graph::SoftmaxBackward&, Lowering& l) {
  const Operand dx = l.output(0);
  const Operand y = l.input_as(0, dx.type), dy = l.input_as(1, dx.type);
  l.step("kernel", [=](const StepContext& c) {
    softmax_backward(c.at(y.buffer), c.at(dy.buffer), c.at(dx.buffer), dx.type, dx.rows(), dx.c(),
                     c.stream);
  });
}

void lower(const graph::Dropout& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input_as(0, y.type);
  const std::int64_t samples = l.samples(), elements = x.elements() / samples;
  if (op.unit != graph::Dropout::Unit::kElement) {
    return l.step("kernel", [=](const StepContext& c) {
      drop_units(op, c.at(x.buffer), c.at(y.buffer), y.type, samples, elements / x.c(), x.c(),
                 c.first_sample, c.scalars, c.stream);
    });
  }
  l.step("kernel", [=](const StepContext& c) {
    dropout(op, c.at(x.buffer), c.at(y.buffer), y.type, samples, elements, c.first_sample,
            c.scalars, c.stream);
  });
}

}  // namespace trainer::backend::cuda
