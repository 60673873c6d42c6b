#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

template <>
void lower(const graph::Reshape& op, Lowering& l) {
  Operand x = l.input(0, Layout::kPlain);
  x.shape = op.shape.with_batch(l.samples());
  l.alias_output(0, x);
}

}  // namespace trainer::backend::cpu
