#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/lower/batch_norm.h"

namespace trainer::backend::cuda {

template <>
void lower(const AddActivate& group, Lowering& l) {
  const BufferId a = l.value(group.terms[0]).buffer, b = l.value(group.terms[1]).buffer;
  const Operand y = l.output(0);
  l.emit("after add, kernel", [=, activation = group.activation](const CallContext& c) {
    add_activate(activation, c.at(a), c.at(b), c.at(y.buffer), y.type, y.elements(), c.stream);
  });
}

template <>
void lower(const NormAdd& group, Lowering& l) {
  lower_norm(*group.norm, l.value(group.addend).buffer, group.activation, l.output(0),
             "with batch norm, kernel", l);
}

}  // namespace trainer::backend::cuda
