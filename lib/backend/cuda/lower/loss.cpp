#include "backend/cuda/kernels/loss.h"

#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::Loss& op, Lowering& l) {
  const Operand logits = l.input(0), labels = l.input(1);
  const BufferId losses = l.output(0).buffer;
  const BufferId gradient = op.gradient ? l.output(1).buffer : -1;
  const DType gradient_type = op.gradient ? l.output_type(1) : logits.type;
  const std::vector<float>& factors = op.class_weight.empty() ? op.target_weight : op.class_weight;
  const BufferId weights = factors.empty() ? -1 : l.constant(factors);
  l.emit("kernel", [=](const CallContext& c) {
    loss(op, c.at(logits.buffer), logits.type, c.at(labels.buffer), labels.type,
         weights < 0 ? nullptr : c.at<float>(weights), c.at<float>(losses),
         gradient < 0 ? nullptr : c.at(gradient), gradient_type, c.scalars, c.state, logits.n(),
         logits.c(), c.stream);
  });
}

}  // namespace trainer::backend::cuda
