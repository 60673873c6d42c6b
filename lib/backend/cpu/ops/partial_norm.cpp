// Batch norms of which neighbouring groups may compute a part (fuse/groups.h).
#include "backend/cpu/ops/batch_norm.h"

namespace trainer::backend::cpu {

void lower(const PartialNorm& group, Lowering& l) {
  const auto& op = std::get<graph::BatchNorm>(group.node->op);
  const bool takes_moments = group.moments == kNoExtra, writes = group.coefficients == kNoExtra;
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand y = writes ? l.output(0, Layout::kBlocked) : Operand{};
  const Channels ch = channels_of(x, l);
  const MomentRows moments{
      takes_moments ? l.scratch(MomentRows::bytes(ch.padded)) : l.extra(group.moments), ch.padded};
  const std::int64_t bytes = norm_rows_bytes(ch, NormRows::kForwardRows);
  const NormRows rows = norm_rows(
      writes ? l.scratch(bytes) : l.make_extra(group.coefficients, bytes), ch, op.activation);
  const BatchStatistics statistics = batch_statistics(*group.node, ch, moments, rows, l);
  const std::int64_t block = l.machine().block;
  const auto implementation = concat(l.kernels().name, takes_moments ? "" : ", moments are given",
                                     writes ? "" : ", readers normalize");
  with_type(x.type, [&]<class T>() {
    l.step(implementation, [=, &kernels = typed<T>(l)](const RunContext& c) {
      const T* from = c.at<T>(x.buffer);
      if (takes_moments) take_moments(c, kernels, from, ch, block, moments);
      statistics.finish(c);
      if (writes) normalize(c, kernels, from, ch, block, rows, c.at<T>(y.buffer));
    });
  });
  if (writes) activate_without_gate(l, op.activation, y);
}

void lower(const PartialInferenceNorm& group, Lowering& l) {
  const auto& op = std::get<graph::BatchNormInference>(group.node->op);
  const Channels ch = channels_of(l.input(0, Layout::kBlocked), l);
  const NormRows rows =
      norm_rows(l.make_extra(group.coefficients, norm_rows_bytes(ch, NormRows::kForwardRows)), ch,
                op.activation);
  const MovingStatistics statistics = moving_statistics(*group.node, ch, rows, l);
  l.step("readers normalize", [=](const RunContext& c) { statistics.fill(c); });
}

}  // namespace trainer::backend::cpu
