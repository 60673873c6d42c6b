#include "backend/cpu/ops/norm_parts.h"

#include <algorithm>
#include <cmath>

namespace trainer::backend::cpu {

void pad(const float* from, std::int64_t count, std::int64_t padded, float* to) {
  std::copy(from, from + count, to);
  std::fill(to + count, to + padded, 0.0f);
}

NormRows norm_rows(BufferId buffer, const Channels& ch, const graph::Activation& activation) {
  return {buffer, ch.padded, fused_activation(activation), activation.alpha};
}

NormRows make_norm_rows(ExtraId id, NormRows::Row rows, const Channels& ch,
                        const graph::Activation& activation, Lowering& l) {
  return norm_rows(l.make_extra(id, rows * ch.padded * kFloatBytes), ch, activation);
}

void Norm::fill_rows(const CallContext& c) const {
  const std::int64_t count = channels.count, padded = channels.padded;
  float *a = rows.row(c, NormRows::kA), *inverse_std = rows.row(c, NormRows::kInverseStd);
  pad(c.at<float>(scale), count, padded, inverse_std);
  for (std::int64_t k = 0; !training && k < count; ++k) {
    inverse_std[k] = 1.0f / std::sqrt(inverse_std[k] + epsilon);
  }
  pad(c.at<float>(mean), count, padded, rows.row(c, NormRows::kMean));
  pad(beta < 0 ? nullptr : c.at<float>(beta), beta < 0 ? 0 : count, padded,
      rows.row(c, NormRows::kB));
  pad(c.at<float>(gamma), count, padded, a);
  for (std::int64_t k = 0; k < count; ++k) a[k] *= inverse_std[k];
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
