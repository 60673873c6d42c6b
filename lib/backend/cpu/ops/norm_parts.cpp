#include "backend/cpu/ops/norm_parts.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/ops/batch_statistics.h"

namespace trainer::backend::cpu {

void pad(const float* from, std::int64_t count, std::int64_t padded, float* to) {
  std::copy(from, from + count, to);
  std::fill(to + count, to + padded, 0.0f);
}

std::int64_t norm_rows_bytes(const Channels& ch, NormRows::Row rows) {
  return rows * ch.padded * kFloatBytes;
}

NormRows norm_rows(BufferId buffer, const Channels& ch, const graph::Activation& activation) {
  return {buffer, ch.padded, fused_activation(activation), activation.alpha};
}

void fill_coefficients(const CallContext& c, const Channels& ch, const float* gamma,
                       const float* beta, const float* mean, const NormRows& rows) {
  pad(mean, ch.count, ch.padded, rows.row(c, NormRows::kMean));
  pad(beta, beta != nullptr ? ch.count : 0, ch.padded, rows.row(c, NormRows::kB));
  float* a = rows.row(c, NormRows::kA);
  const float* inverse_std = rows.row(c, NormRows::kInverseStd);
  std::fill(a, a + ch.padded, 0.0f);
  for (std::int64_t k = 0; k < ch.count; ++k) a[k] = gamma[k] * inverse_std[k];
}

void BatchStatistics::finish(const CallContext& c) const {
  combine_moments(c, {c.counted, moments.shift(c), moments.moments(c)}, channels, c.at<float>(mean),
                  c.at<float>(inverse_std), epsilon);
  pad(c.at<float>(inverse_std), channels.count, channels.padded,
      rows.row(c, NormRows::kInverseStd));
  fill_coefficients(c, channels, c.at<float>(gamma), c.at<float>(beta), c.at<float>(mean), rows);
}

BatchStatistics batch_statistics(const graph::Node& norm, const Channels& ch,
                                 const MomentRows& moments, const NormRows& rows, Lowering& l) {
  const auto place = [&](graph::ValueId id) { return l.value(id, Layout::kPlain).buffer; };
  const auto result = [&](graph::ValueId id) { return l.result(id, Layout::kPlain).buffer; };
  return {ch,
          moments,
          place(norm.inputs[1]),
          place(norm.inputs[2]),
          result(norm.outputs[1]),
          result(norm.outputs[2]),
          std::get<graph::BatchNorm>(norm.op).epsilon,
          rows};
}

void MovingStatistics::fill(const CallContext& c) const {
  const float* from = c.at<float>(variance);
  float* inverse_std = rows.row(c, NormRows::kInverseStd);
  for (std::int64_t k = 0; k < channels.count; ++k) {
    inverse_std[k] = 1.0f / std::sqrt(from[k] + epsilon);
  }
  fill_coefficients(c, channels, c.at<float>(gamma), c.at<float>(beta), c.at<float>(mean), rows);
}

MovingStatistics moving_statistics(const graph::Node& norm, const Channels& ch,
                                   const NormRows& rows, Lowering& l) {
  const auto place = [&](std::size_t i) { return l.value(norm.inputs[i], Layout::kPlain).buffer; };
  return {ch,       place(1), place(2),
          place(3), place(4), std::get<graph::BatchNormInference>(norm.op).epsilon,
          rows};
}

void activate_unfused(Lowering& l, const graph::Activation& activation, const Operand& y) {
  if (is_fusable(activation)) return;
  l.use(y.buffer);
  activate(l, activation, y, y);
}

const graph::Node* find_forward(const graph::Graph& graph, const graph::Node& backward) {
  if (backward.inputs.size() < 6) return nullptr;
  const int maker = graph.producer(backward.inputs[5]);
  if (maker < 0) return nullptr;
  const graph::Node& node = graph.nodes[maker];
  const bool is_norm = std::holds_alternative<graph::BatchNorm>(node.op) ||
                       std::holds_alternative<graph::BatchNormInference>(node.op);
  return is_norm && node.inputs[0] == backward.inputs[0] ? &node : nullptr;
}

}  // namespace trainer::backend::cpu
