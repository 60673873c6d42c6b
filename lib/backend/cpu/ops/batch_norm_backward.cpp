#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/ops/batch_statistics.h"
#include "backend/cpu/ops/depthwise_chains.h"
#include "backend/cpu/ops/residual_gradients.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {
namespace {

using simd::GradientSums;

// dy before the activation when our kernels have no gate for it; dy itself otherwise.
Operand ungated(Lowering& l, const graph::Activation& activation, std::size_t y_input,
                const Operand& dy) {
  if (has_gate(activation)) return dy;
  Operand g = dy;
  g.buffer = l.scratch(l.padded_elements(dy.shape, dy.layout) *
                       static_cast<std::int64_t>(size_of(dy.type)));
  activate_backward(l, activation, l.input(y_input, dy.layout), dy, g);
  l.reuse(g.buffer);
  return g;
}

// Where the step that made dy has left the sums of it, which is before the gate already; -1: none.
Buffer sums_taken_before(Lowering& l) {
  const auto& of_chains = l.depthwise_chains().sums;
  const auto& of_residuals = l.residual_gradients().sums;
  if (const auto found = of_chains.find(l.node().inputs[1]); found != of_chains.end()) {
    return found->second;
  }
  const auto found = of_residuals.find(l.node().outputs[0]);
  return found != of_residuals.end() ? found->second : -1;
}

// What a backward form reads and writes.
struct Backward {
  Operand x, dy, dx;
  Buffer y = -1;              // for the gate; -1: not needed, or computed again from x
  Buffer beta = -1;           // for the latter
  Buffer gamma, mean, scale;  // scale: inverse_std, or the variance
  Buffer dgamma, dbeta;
  Channels channels;
  Buffer sums, inverse_std, p, q, r;  // padded
  NormBuffers norm;
  float epsilon;
  bool training;
  bool has_sums = false;  // taken by the step that made dy, which is before the gate already
  bool skips_dx = false;
};

Backward backward_operands(Lowering& l, const graph::Activation& fused, float epsilon,
                           bool training) {
  Backward b;
  b.epsilon = epsilon;
  b.training = training;
  b.x = l.input(0, Layout::kBlocked);
  const Operand dy = l.input(1, Layout::kBlocked);
  const Buffer sums = sums_taken_before(l);
  b.has_sums = sums >= 0;
  const graph::Activation activation = b.has_sums ? graph::Activation{} : fused;
  b.dy = ungated(l, activation, 5, dy);
  b.gamma = l.input(2, Layout::kPlain).buffer;
  b.mean = l.input(3, Layout::kPlain).buffer;
  b.scale = l.input(4, Layout::kPlain).buffer;
  if (gate_of(activation) != simd::Gate::kNone) {
    if (const graph::Node* forward = forward_of(l.graph(), l.node())) {
      b.beta = l.value(forward->inputs[2], Layout::kPlain).buffer;
    } else {
      b.y = l.input(5, Layout::kBlocked).buffer;
    }
  }
  l.reuse(b.x.buffer);
  b.skips_dx = l.depthwise_chains().skips_gradient(l.node().outputs[0]);
  if (!b.skips_dx) {
    if (has_one_reader(l.graph(), l.node().inputs[1])) l.alias_output(0, dy);
    b.dx = l.output(0, Layout::kBlocked);
  }
  b.dgamma = l.output(1, Layout::kPlain).buffer;
  b.dbeta = l.output(2, Layout::kPlain).buffer;
  b.channels = channels_of(b.x, l);
  const std::int64_t padded = b.channels.padded;
  b.sums = b.has_sums ? sums : l.scratch(padded * static_cast<std::int64_t>(sizeof(GradientSums)));
  l.reuse(b.sums);
  for (Buffer* row : {&b.inverse_std, &b.p, &b.q, &b.r}) *row = l.scratch(padded * 4);
  b.norm = norm_buffers(l, b.channels, activation);
  if (b.skips_dx) {
    l.depthwise_chains().skipped_gradients[l.node().outputs[0]] = {b.x, b.dy, b.norm,
                                                                   b.p, b.q,  b.r};
  }
  return b;
}

void fill_norm(const RunContext& c, const Backward& b) {
  const Channels& ch = b.channels;
  float* is = c.at<float>(b.inverse_std);
  pad(c.at<float>(b.scale), ch.count, ch.padded, is);
  if (!b.training) {
    for (std::int64_t k = 0; k < ch.count; ++k) is[k] = 1.0f / std::sqrt(is[k] + b.epsilon);
  }
  const float* beta = b.beta >= 0 ? c.at<float>(b.beta) : nullptr;
  fill_coefficients(c, ch, c.at<float>(b.gamma), beta, c.at<float>(b.mean), is, b.norm);
}

// This worker's share; the update phase adds the workers up.
void write_parameter_gradients(const RunContext& c, const Backward& b) {
  const GradientSums* own = c.at<GradientSums>(b.sums);
  for (std::int64_t k = 0; k < b.channels.count; ++k) {
    c.at<float>(b.dgamma)[k] = static_cast<float>(own[k].sum_g_xhat);
    c.at<float>(b.dbeta)[k] = static_cast<float>(own[k].sum_g);
  }
}

// In training form the mean and the variance depend on x, so dx has two more terms: dx = gamma * is
// * (g - sum(g) / n - xhat * sum(g * xhat) / n), as p * g + q * (x - mean) + r.
void fill_gradient_coefficients(const RunContext& c, const Backward& b) {
  const Channels& ch = b.channels;
  float *p = c.at<float>(b.p), *q = c.at<float>(b.q), *r = c.at<float>(b.r);
  const float *a = c.at<float>(b.norm.a), *is = c.at<float>(b.inverse_std);
  std::copy(a, a + ch.padded, p);
  std::fill(q, q + ch.padded, 0.0f);
  std::fill(r, r + ch.padded, 0.0f);
  if (!b.training) return;
  const double n = static_cast<double>(c.all_samples * ch.shape.pixels);
  const auto take = [&](std::int64_t k, const GradientSums& all) {
    const double slope =
        static_cast<double>(p[k]) * static_cast<double>(is[k]) * all.sum_g_xhat / n;
    q[k] = static_cast<float>(-slope);
    r[k] = static_cast<float>(-static_cast<double>(p[k]) * all.sum_g / n);
  };
  combine_sums(c, {c.counted, c.at<GradientSums>(b.sums)}, ch.count, std::ref(take));
}

void lower_backward(Lowering& l, const graph::Activation& activation, float epsilon,
                    bool training) {
  const Backward b = backward_operands(l, activation, epsilon, training);
  const auto sums_bytes = static_cast<std::size_t>(b.channels.padded) * sizeof(GradientSums);
  const std::int64_t block = l.machine().block;
  with_type(b.x.type, [&]<class T>() {
    l.step(l.kernels().name, [=, &kernels = typed<T>(l)](const RunContext& c) {
      const T *x = c.at<T>(b.x.buffer), *dy = c.at<T>(b.dy.buffer);
      const auto y_of = [&](const PlanePart& part) {
        return b.y >= 0 ? c.at<T>(b.y) + part.element : nullptr;
      };
      fill_norm(c, b);
      if (!b.has_sums) {
        std::memset(c.at<void>(b.sums), 0, sums_bytes);
        over_channels(c, b.channels.shape, block, [&](const PlanePart& part) {
          kernels.norm_sums(part.shape, x + part.element, dy + part.element, y_of(part),
                            b.norm.at(c, part.channel), c.at<float>(b.inverse_std) + part.channel,
                            c.at<GradientSums>(b.sums) + part.channel);
        });
      }
      write_parameter_gradients(c, b);
      fill_gradient_coefficients(c, b);
      if (b.skips_dx) return;
      over_planes(c, b.channels.shape, block, [&](const PlanePart& part) {
        kernels.norm_backward(part.shape, x + part.element, dy + part.element, y_of(part),
                              b.norm.at(c, part.channel),
                              {c.at<float>(b.p) + part.channel, c.at<float>(b.q) + part.channel,
                               c.at<float>(b.r) + part.channel},
                              c.at<T>(b.dx.buffer) + part.element);
      });
    });
  });
}

}  // namespace

void lower(const graph::BatchNormBackward& op, Lowering& l) {
  lower_backward(l, op.activation, op.epsilon, true);
}

void lower(const graph::BatchNormInferenceBackward& op, Lowering& l) {
  lower_backward(l, op.activation, op.epsilon, false);
}

}  // namespace trainer::backend::cpu
