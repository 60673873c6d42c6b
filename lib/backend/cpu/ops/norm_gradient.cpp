#include "backend/cpu/ops/norm_gradient.h"

#include <cmath>

#include "backend/cpu/ops/batch_statistics.h"

namespace trainer::backend::cpu {
namespace {

using simd::GradientSums;

// Returns the gradient before an activation that our kernels cannot apply; dy itself otherwise.
Operand gradient_before_activation(Lowering& l, const graph::Activation& activation,
                                   std::size_t y_input, const Operand& dy) {
  if (is_fusable(activation)) return dy;
  Operand g = dy;
  g.buffer = l.scratch(l.padded_elements(dy.shape, dy.layout) *
                       static_cast<std::int64_t>(size_of(dy.type)));
  activate_backward(l, activation, l.input(y_input, dy.layout), dy, g);
  l.use(g.buffer);
  return g;
}

}  // namespace

std::int64_t gradient_sums_bytes(const Channels& ch) {
  return ch.padded * static_cast<std::int64_t>(sizeof(GradientSums));
}

NormGradient norm_gradient(Lowering& l, const graph::Activation& activation, float epsilon,
                           bool training, const NormGradientMemory& memory) {
  NormGradient b;
  b.epsilon = epsilon;
  b.training = training;
  b.x = l.input(0, Layout::kBlocked);
  b.dy = gradient_before_activation(l, activation, 5, l.input(1, Layout::kBlocked));
  b.gamma = l.input(2, Layout::kPlain).buffer;
  b.mean = l.input(3, Layout::kPlain).buffer;
  b.scale = l.input(4, Layout::kPlain).buffer;
  if (fused_activation(activation) != simd::FusedActivation::kNone) {
    if (const graph::Node* forward = find_forward(l.graph(), l.node())) {
      b.beta = l.value(forward->inputs[2], Layout::kPlain).buffer;
    } else {
      b.y = l.input(5, Layout::kBlocked).buffer;
    }
  }
  b.dgamma = l.output(1, Layout::kPlain).buffer;
  b.dbeta = l.output(2, Layout::kPlain).buffer;
  b.channels = find_channels(b.x, l);
  b.sums = memory.sums;
  b.rows = norm_rows(memory.rows, b.channels, activation);
  for (const BufferId buffer : {b.x.buffer, b.sums, b.rows.buffer}) l.use(buffer);
  return b;
}

Operand norm_dx(Lowering& l) {
  const Operand dy = l.input(1, Layout::kBlocked);
  if (has_one_reader(l.graph(), l.node().inputs[1])) l.alias_output(0, dy);
  return l.output(0, Layout::kBlocked);
}

void NormGradient::fill_norm(const CallContext& c) const {
  float* is = rows.row(c, NormRows::kInverseStd);
  pad(c.at<float>(scale), channels.count, channels.padded, is);
  if (!training) {
    for (std::int64_t k = 0; k < channels.count; ++k) is[k] = 1.0f / std::sqrt(is[k] + epsilon);
  }
  fill_coefficients(c, channels, c.at<float>(gamma), beta >= 0 ? c.at<float>(beta) : nullptr,
                    c.at<float>(mean), rows);
}

// The gradients of gamma and beta are this lane's share; the update phase adds the lanes up.
// In training form the mean and the variance depend on x, so dx has two more terms: dx = gamma * is
// * (g - sum(g) / n - xhat * sum(g * xhat) / n), as p * g + q * (x - mean) + r.
void NormGradient::finish_sums(const CallContext& c) const {
  const GradientSums* lane_sums = c.at<GradientSums>(sums);
  for (std::int64_t k = 0; k < channels.count; ++k) {
    c.at<float>(dgamma)[k] = static_cast<float>(lane_sums[k].sum_g_xhat);
    c.at<float>(dbeta)[k] = static_cast<float>(lane_sums[k].sum_g);
  }
  float *p = rows.row(c, NormRows::kP), *q = rows.row(c, NormRows::kQ),
        *r = rows.row(c, NormRows::kR);
  const float *a = rows.row(c, NormRows::kA), *is = rows.row(c, NormRows::kInverseStd);
  std::copy(a, a + channels.padded, p);
  std::fill(q, q + channels.padded, 0.0f);
  std::fill(r, r + channels.padded, 0.0f);
  if (!training) return;
  const double n = static_cast<double>(c.all_samples * channels.shape.pixels);
  const auto take = [=](std::int64_t k, const GradientSums& all) {
    const double slope =
        static_cast<double>(p[k]) * static_cast<double>(is[k]) * all.sum_g_xhat / n;
    q[k] = static_cast<float>(-slope);
    r[k] = static_cast<float>(-static_cast<double>(p[k]) * all.sum_g / n);
  };
  combine_sums(c, {c.counted, lane_sums}, channels.count, std::ref(take));
}

}  // namespace trainer::backend::cpu
