#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/lower/batch_norm.h"

namespace trainer::backend::cuda {

template <>
void lower(const AddActivateBackward& group, Lowering& l) {
  const BufferId a = l.value(group.terms[0]).buffer, b = l.value(group.terms[1]).buffer;
  const BufferId saved = l.value(group.saved).buffer;
  const Operand dx = l.output(0);
  l.emit("after add, kernel", [=, activation = group.activation](const CallContext& c) {
    add_activate_backward(activation, c.at(saved), c.at(a), c.at(b), c.at(dx.buffer), dx.type,
                          dx.elements(), c.stream);
  });
}

template <>
void lower(const GradientNorm& group, Lowering& l) {
  const auto buffer = [&l](graph::ValueId id) {
    return id == graph::kNoValue ? -1 : l.value(id).buffer;
  };
  NormGradientPlaces gradient{.dy = buffer(group.terms[0]),
                              .dy2 = buffer(group.terms[1]),
                              .sum = l.output(0).buffer,
                              .activation = group.activation};
  if (group.saved != graph::kNoValue) gradient.take_output(group.saved, l);
  lower_norm_backward(*group.norm, buffer(group.norm->inputs[0]), gradient,
                      "with batch norm's gradient, kernel", l);
}

}  // namespace trainer::backend::cuda
