// Batch norms and their gradients, parts of which neighbouring groups may compute (fuse/groups.h).
#include "backend/cpu/ops/norm_gradient.h"

namespace trainer::backend::cpu {

template <>
void lower(const PartialNorm& group, Lowering& l) {
  const auto& op = std::get<graph::BatchNorm>(group.node->op);
  const bool takes_moments = group.moments == kNoExtra, writes = group.coefficients == kNoExtra;
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand y = writes ? l.output(0, Layout::kBlocked) : Operand{};
  const Channels ch = find_channels(x, l);
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
    l.emit(implementation, [=, &kernels = typed<T>(l)](const CallContext& c) {
      const T* from = c.at<T>(x.buffer);
      if (takes_moments) take_moments(c, kernels, from, ch, block, moments);
      statistics.finish(c);
      if (writes) normalize(c, kernels, from, ch, block, rows, c.at<T>(y.buffer));
    });
  });
  if (writes) activate_unfused(l, op.activation, y);
}

template <>
void lower(const PartialNormInference& group, Lowering& l) {
  const auto& op = std::get<graph::BatchNormInference>(group.node->op);
  const Channels ch = find_channels(l.input(0, Layout::kBlocked), l);
  const NormRows rows =
      norm_rows(l.make_extra(group.coefficients, norm_rows_bytes(ch, NormRows::kForwardRows)), ch,
                op.activation);
  const MovingStatistics statistics = moving_statistics(*group.node, ch, rows, l);
  l.emit("readers normalize", [=](const CallContext& c) { statistics.fill(c); });
}

template <>
void lower(const PartialNormBackward& group, Lowering& l) {
  const auto& op = std::get<graph::BatchNormBackward>(group.node->op);
  const bool takes_sums = group.sums == kNoExtra, writes = group.coefficients == kNoExtra;
  const Channels ch = find_channels(l.input(0, Layout::kBlocked), l);
  const std::int64_t rows_bytes = norm_rows_bytes(ch, NormRows::kBackwardRows);
  const NormGradientMemory memory{
      takes_sums ? l.scratch(gradient_sums_bytes(ch)) : l.extra(group.sums),
      writes ? l.scratch(rows_bytes) : l.make_extra(group.coefficients, rows_bytes)};
  // The instruction that takes the sums also multiplies dy by the derivative of the activation.
  const NormGradient b =
      norm_gradient(l, takes_sums ? op.activation : graph::Activation{}, op.epsilon, true, memory);
  const BufferId dx = writes ? norm_dx(l).buffer : -1;
  const std::int64_t block = l.machine().block;
  const auto implementation = concat(l.kernels().name, takes_sums ? "" : ", sums are given",
                                     writes ? "" : ", the reader computes dx");
  with_type(b.x.type, [&]<class T>() {
    l.emit(implementation, [=, &kernels = typed<T>(l)](const CallContext& c) {
      b.fill_norm(c);
      if (takes_sums) take_gradient_sums(c, kernels, block, b);
      b.finish_sums(c);
      if (writes) write_dx(c, kernels, block, b, c.at<T>(dx));
    });
  });
}

}  // namespace trainer::backend::cpu
