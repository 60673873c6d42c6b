#include "backend/cuda/kernels/class_rank.h"

#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::ClassRank& op, Lowering& l) {
  const Operand logits = l.input(0), labels = l.input(1);
  const BufferId ranks = l.output(0).buffer;
  l.emit("kernel", [=](const CallContext& c) {
    class_rank(op, c.at(logits.buffer), logits.type, c.at(labels.buffer), labels.type,
               c.at<std::int32_t>(ranks), logits.n(), logits.c(), c.stream);
  });
}

}  // namespace trainer::backend::cuda
