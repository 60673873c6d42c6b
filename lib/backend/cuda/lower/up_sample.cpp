#include "backend/cuda/kernels/up_sample.h"

#include "backend/cuda/program.h"

namespace trainer::backend::cuda {
namespace {

template <class Op>
UpSampleShape up_sample_shape(const Op& op, const Operand& x) {
  return {x.n(), x.h(), x.w(), x.c(), op.height, op.width, op.kind};
}

}  // namespace

template <>
void lower(const graph::UpSample& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input_as(0, y.type);
  l.step("kernel", [=, shape = up_sample_shape(op, x)](const StepContext& c) {
    up_sample(shape, c.at(x.buffer), c.at(y.buffer), y.type, c.stream);
  });
}

template <>
void lower(const graph::UpSampleBackward& op, Lowering& l) {
  const Operand dx = l.output(0);
  const Operand dy = l.input_as(0, dx.type);
  l.step("kernel", [=, shape = up_sample_shape(op, dx)](const StepContext& c) {
    up_sample_backward(shape, c.at(dy.buffer), c.at(dx.buffer), dx.type, c.stream);
  });
}

}  // namespace trainer::backend::cuda
