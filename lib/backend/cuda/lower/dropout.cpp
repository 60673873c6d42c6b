#include "backend/cuda/kernels/dropout.h"

#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::Dropout& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input(0, y.type);
  const std::int64_t samples = l.samples(), elements = x.elements() / samples;
  if (op.unit != graph::Dropout::Unit::kElement) {
    return l.emit("kernel", [=](const CallContext& c) {
      drop_units(op, c.at(x.buffer), c.at(y.buffer), y.type, samples, elements / x.c(), x.c(),
                 c.first_sample, c.scalars, c.stream);
    });
  }
  l.emit("kernel", [=](const CallContext& c) {
    dropout(op, c.at(x.buffer), c.at(y.buffer), y.type, samples, elements, c.first_sample,
            c.scalars, c.stream);
  });
}

}  // namespace trainer::backend::cuda
