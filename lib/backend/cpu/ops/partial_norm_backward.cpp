// Gradients of batch norms of which neighbouring groups may compute a part (fuse/groups.h).
#include "backend/cpu/ops/batch_norm_backward.h"

namespace trainer::backend::cpu {

void lower(const PartialNormBackward& group, Lowering& l) {
  const auto& op = std::get<graph::BatchNormBackward>(group.node->op);
  const bool takes_sums = group.sums == kNoExtra, writes = group.coefficients == kNoExtra;
  const Channels ch = channels_of(l.input(0, Layout::kBlocked), l);
  const std::int64_t rows_bytes = norm_rows_bytes(ch, NormRows::kBackwardRows);
  const NormGradientMemory memory{
      takes_sums ? l.scratch(gradient_sums_bytes(ch)) : l.extra(group.sums),
      writes ? l.scratch(rows_bytes) : l.make_extra(group.coefficients, rows_bytes)};
  // The step that takes the sums also multiplies dy by the derivative of the activation.
  const NormGradient b =
      norm_gradient(l, takes_sums ? op.activation : graph::Activation{}, op.epsilon, true, memory);
  const Buffer dx = writes ? norm_dx(l).buffer : -1;
  const std::int64_t block = l.machine().block;
  const auto implementation = concat(l.kernels().name, takes_sums ? "" : ", sums are given",
                                     writes ? "" : ", the reader computes dx");
  with_type(b.x.type, [&]<class T>() {
    l.step(implementation, [=, &kernels = typed<T>(l)](const RunContext& c) {
      b.fill_norm(c);
      if (takes_sums) take_gradient_sums(c, kernels, block, b);
      b.finish_sums(c);
      if (writes) write_dx(c, kernels, block, b, c.at<T>(dx));
    });
  });
}

}  // namespace trainer::backend::cpu
