#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::Reshape& op, Lowering& l) {
  Operand y = l.input(0, l.output_type(0));
  y.shape = op.shape.with_batch(l.samples());
  l.alias_output(0, y);
}

}  // namespace trainer::backend::cuda
