#include "backend/cuda/kernels/loss.h"

#include "backend/cuda/kernels/penalty.h"
#include "backend/cuda/program.h"

namespace trainer::backend::cuda {
namespace {

// Partial sums of penalty().
constexpr std::int64_t kPenaltyScratch = 1024 * sizeof(double);

}  // namespace

void lower(const graph::Loss& op, Lowering& l) {
  const Operand logits = l.input(0), labels = l.input(1);
  const BufferId losses = l.output(0).buffer;
  const BufferId gradient = op.gradient ? l.output(1).buffer : -1;
  const DType gradient_type = op.gradient ? l.output_type(1) : logits.type;
  const BufferId weights = op.class_weight.empty() ? -1 : l.constant(op.class_weight);
  l.step("kernel", [=](const StepContext& c) {
    loss(op, c.at(logits.buffer), logits.type, c.at(labels.buffer), labels.type,
         weights < 0 ? nullptr : c.at<float>(weights), c.at<float>(losses),
         gradient < 0 ? nullptr : c.at(gradient), gradient_type, c.scalars, c.state, logits.n(),
         logits.c(), c.stream);
  });
}

void lower(const graph::ClassRank& op, Lowering& l) {
  const Operand logits = l.input(0), labels = l.input(1);
  const BufferId ranks = l.output(0).buffer;
  l.step("kernel", [=](const StepContext& c) {
    class_rank(op, c.at(logits.buffer), logits.type, c.at(labels.buffer), labels.type,
               c.at<std::int32_t>(ranks), logits.n(), logits.c(), c.stream);
  });
}

void lower(const graph::L2Penalty& op, Lowering& l) {
  const BufferId w = l.input(0).buffer, y = l.output(0).buffer;
  const std::int64_t count = l.input_shape(0).elements();
  const BufferId scratch = l.scratch(kPenaltyScratch);
  l.step("kernel", [=](const StepContext& c) {
    penalty(op, c.at<float>(w), count, c.at<float>(y), c.at<double>(scratch), c.stream);
  });
}

// The update runs over flat buffers, not node by node.
void lower(const graph::Update&, Lowering&) {}

}  // namespace trainer::backend::cuda
