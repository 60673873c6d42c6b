// Batch normalisation. In training form the lanes, and the ranks if there are several, add up their
// sums before they normalise. Neighbouring groups may compute a part of a norm (fuse/groups.h).
#include <algorithm>
#include <cmath>

#include "backend/cpu/ops/batch_statistics.h"

namespace trainer::backend::cpu {
namespace {

using simd::GradientSums;

template <class T>
void take_moments(const CallContext& c, const simd::Typed<T>& kernels, const T* x,
                  const Channels& ch, std::int64_t block, const MomentRows& rows) {
  // The shift is the first pixel of each channel, so that large means cost no precision.
  for (std::int64_t k = 0; k < ch.shape.blocks; ++k) {
    const T* pixel = x + k * ch.shape.pixels * block;
    for (std::int64_t i = 0; i < block; ++i) rows.shift(c)[k * block + i] = as_float(pixel[i]);
  }
  rows.clear(c);
  over_channels(c, ch.shape, block, [&](const PlanePart& part) {
    kernels.moments(part.shape, x + part.element, rows.shift(c) + part.channel,
                    rows.moments(c) + part.channel);
  });
}

// Lowers a norm of either form. `norm` has its channels, activation and operands.
// take_statistics(c, kernels, x) computes the mean and the scale. Readers compute y if the rows are
// an extra.
template <class TakeStatistics>
void lower_norm(Lowering& l, const graph::Activation& activation, const Operand& x,
                const Operand& y, const Norm& norm, const std::string& detail,
                const TakeStatistics& take_statistics) {
  const bool writes = y.buffer >= 0;
  const std::int64_t block = l.machine().block;
  emit_kernels<simd::Typed>(
      l, x.type,
      [=]<class T>(const CallContext& c, const simd::Typed<T>& kernels) {
        const T* from = c.at<T>(x.buffer);
        take_statistics(c, kernels, from);
        norm.fill_rows(c);
        if (!writes) return;
        over_planes(c, norm.channels.shape, block, [&](const PlanePart& part) {
          kernels.scale_shift(part.shape, from + part.element, norm.rows.at(c, part.channel),
                              c.at<T>(y.buffer) + part.element);
        });
      },
      detail + (writes ? "" : ", readers normalize"));
  if (writes) activate_unfused(l, activation, y);
}

// The operands of the gradient of a norm of either form.
struct NormGradient {
  Operand x, dy;    // dy: before the activation if the kernels do not apply it
  BufferId y = -1;  // read by the activation's derivative; -1: not needed, or computed from x
  BufferId dgamma, dbeta;
  BufferId sums;  // GradientSums
  Norm norm;      // with beta if y is computed again

  // Computes the gradients of gamma and beta and the coefficients of dx from the sums.
  void finish_sums(const CallContext& c) const;
};

// Returns the operands of the node that is lowered. dy must still be multiplied by the derivative
// of `activation`. `norm` has its channels, rows and form.
NormGradient norm_gradient(Lowering& l, const graph::Activation& activation, BufferId sums,
                           const Norm& norm) {
  NormGradient b;
  b.sums = sums;
  b.norm = norm;
  b.x = l.input(0, Layout::kBlocked);
  b.dy = l.input(1, Layout::kBlocked);
  if (!is_fusable(activation)) {
    b.dy = before_activation(l, activation, l.input(5, Layout::kBlocked), b.dy);
  }
  b.norm.gamma = l.input(2, Layout::kPlain).buffer;
  b.norm.mean = l.input(3, Layout::kPlain).buffer;
  b.norm.scale = l.input(4, Layout::kPlain).buffer;
  if (fused_activation(activation) != simd::FusedActivation::kNone) {
    if (const graph::Node* forward = find_forward(l.graph(), l.node())) {
      b.norm.beta = l.value(forward->inputs[2], Layout::kPlain).buffer;
    } else {
      b.y = l.input(5, Layout::kBlocked).buffer;
    }
  }
  b.dgamma = l.output(1, Layout::kPlain).buffer;
  b.dbeta = l.output(2, Layout::kPlain).buffer;
  for (const BufferId buffer : {b.x.buffer, sums, norm.rows.buffer}) l.use(buffer);
  return b;
}

// Returns the place of dx, which is that of dy if nothing else reads dy.
BufferId norm_dx(Lowering& l) {
  const Operand dy = l.input(1, Layout::kBlocked);
  if (has_one_reader(l.graph(), l.node().inputs[1])) l.alias_output(0, dy);
  return l.output(0, Layout::kBlocked).buffer;
}

// The gradients of gamma and beta are this lane's share; the update phase adds the lanes up.
// In training form the mean and the variance depend on x, so dx has two more terms: dx = gamma * is
// * (g - sum(g) / n - xhat * sum(g * xhat) / n), as p * g + q * (x - mean) + r.
void NormGradient::finish_sums(const CallContext& c) const {
  const auto& [channels, rows, epsilon, training, gamma, mean, scale, beta] = norm;
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

// Lowers the gradient of a norm of either form, with the extras of PartialNormBackward.
void lower_backward(Lowering& l, const graph::Activation& activation, float epsilon, bool training,
                    ExtraId given_sums, ExtraId coefficients) {
  const bool takes_sums = given_sums == kNoExtra, writes = coefficients == kNoExtra;
  // The instruction that takes the sums also multiplies dy by the derivative of the activation.
  const graph::Activation left = takes_sums ? activation : graph::Activation{};
  const Channels ch = find_channels(l.input(0, Layout::kBlocked), l);
  const BufferId sums = takes_sums ? l.scratch(gradient_sums_bytes(ch)) : l.extra(given_sums);
  const NormRows rows = make_norm_rows(coefficients, NormRows::kBackwardRows, ch, left, l);
  const NormGradient b = norm_gradient(l, left, sums, {ch, rows, epsilon, training, -1, -1, -1});
  const BufferId dx = writes ? norm_dx(l) : -1;
  const std::int64_t block = l.machine().block;
  emit_kernels<simd::Typed>(
      l, b.x.type,
      [=]<class T>(const CallContext& c, const simd::Typed<T>& kernels) {
        const T *x = c.at<T>(b.x.buffer), *dy = c.at<T>(b.dy.buffer);
        const T* y = b.y >= 0 ? c.at<T>(b.y) : nullptr;
        b.norm.fill_rows(c);
        if (takes_sums) {
          auto* all = c.at<GradientSums>(sums);
          std::fill(all, all + ch.padded, GradientSums{});
          over_channels(c, ch.shape, block, [&](const PlanePart& part) {
            kernels.norm_sums(part.shape, x + part.element, dy + part.element,
                              y != nullptr ? y + part.element : nullptr, rows.at(c, part.channel),
                              rows.row(c, NormRows::kInverseStd, part.channel), all + part.channel);
          });
        }
        b.finish_sums(c);
        if (!writes) return;
        over_planes(c, ch.shape, block, [&](const PlanePart& part) {
          kernels.norm_backward(part.shape, x + part.element, dy + part.element,
                                y != nullptr ? y + part.element : nullptr, rows.at(c, part.channel),
                                rows.gradient_at(c, part.channel), c.at<T>(dx) + part.element);
        });
      },
      concat(takes_sums ? "" : ", sums are given", writes ? "" : ", the reader computes dx"));
}

}  // namespace

template <>
void lower(const PartialNorm& group, Lowering& l) {
  const auto& op = std::get<graph::BatchNorm>(group.node->op);
  const bool takes_moments = group.moments == kNoExtra;
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand y = group.coefficients == kNoExtra ? l.output(0, Layout::kBlocked) : Operand{};
  const Channels ch = find_channels(x, l);
  const MomentRows moments{
      takes_moments ? l.scratch(MomentRows::bytes(ch.padded)) : l.extra(group.moments), ch.padded};
  const NormRows rows =
      make_norm_rows(group.coefficients, NormRows::kForwardRows, ch, op.activation, l);
  const BufferId gamma = l.input(1, Layout::kPlain).buffer,
                 beta = l.input(2, Layout::kPlain).buffer;
  const BufferId mean = l.output(1, Layout::kPlain).buffer,
                 scale = l.output(2, Layout::kPlain).buffer;
  const std::int64_t block = l.machine().block;
  lower_norm(l, op.activation, x, y, {ch, rows, op.epsilon, true, gamma, mean, scale, beta},
             takes_moments ? "" : ", moments are given",
             [=, epsilon = op.epsilon]<class T>(const CallContext& c, const simd::Typed<T>& kernels,
                                                const T* from) {
               if (takes_moments) take_moments(c, kernels, from, ch, block, moments);
               combine_moments(c, {c.counted, moments.shift(c), moments.moments(c)}, ch,
                               c.at<float>(mean), c.at<float>(scale), epsilon);
             });
}

template <>
void lower(const graph::BatchNorm&, Lowering& l) {
  lower(PartialNorm{&l.node()}, l);
}

template <>
void lower(const PartialNormInference& group, Lowering& l) {
  const auto& op = std::get<graph::BatchNormInference>(group.node->op);
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand y = group.coefficients == kNoExtra ? l.output(0, Layout::kBlocked) : Operand{};
  const Channels ch = find_channels(x, l);
  const NormRows rows =
      make_norm_rows(group.coefficients, NormRows::kForwardRows, ch, op.activation, l);
  const auto place = [&](std::size_t i) { return l.input(i, Layout::kPlain).buffer; };
  lower_norm(l, op.activation, x, y,
             {ch, rows, op.epsilon, false, place(1), place(3), place(4), place(2)}, "",
             [](const CallContext&, const auto&, const auto*) {});
}

template <>
void lower(const graph::BatchNormInference&, Lowering& l) {
  lower(PartialNormInference{&l.node()}, l);
}

template <>
void lower(const graph::UpdateStatistics& op, Lowering& l) {
  BufferId in[4];
  for (std::size_t i = 0; i < 4; ++i) in[i] = l.input(i, Layout::kPlain).buffer;
  const std::int64_t count = l.input_shape(0).elements();
  const float momentum = op.momentum, epsilon = op.epsilon;
  l.emit("moving averages", [=](const CallContext& c) {
    float *moving_mean = c.at<float>(in[0]), *moving_variance = c.at<float>(in[1]);
    const float *mean = c.at<float>(in[2]), *is = c.at<float>(in[3]);
    for (std::int64_t k = 0; k < count; ++k) {
      const float variance = 1.0f / (is[k] * is[k]) - epsilon;
      moving_mean[k] = moving_mean[k] * momentum + mean[k] * (1 - momentum);
      moving_variance[k] = moving_variance[k] * momentum + variance * (1 - momentum);
    }
  });
}

template <>
void lower(const PartialNormBackward& group, Lowering& l) {
  const auto& op = std::get<graph::BatchNormBackward>(group.node->op);
  lower_backward(l, op.activation, op.epsilon, true, group.sums, group.coefficients);
}

template <>
void lower(const graph::BatchNormBackward& op, Lowering& l) {
  lower_backward(l, op.activation, op.epsilon, true, kNoExtra, kNoExtra);
}

template <>
void lower(const graph::BatchNormInferenceBackward& op, Lowering& l) {
  lower_backward(l, op.activation, op.epsilon, false, kNoExtra, kNoExtra);
}

// The fold is computed once per change of the parameters.
template <>
void lower(const graph::FoldBatchNorm& op, Lowering& l) {
  const std::size_t first = op.bias ? 2 : 1;  // of gamma, beta, mean, variance
  const Shape kernel_shape = l.input_shape(0);
  const std::int64_t channels = kernel_shape[kernel_shape.rank() - 1];
  const std::int64_t rows = kernel_shape.elements() / channels;
  const float* kernel = l.persistent(0);
  const float* bias = op.bias ? l.persistent(1) : nullptr;
  const float *gamma = l.persistent(first), *beta = l.persistent(first + 1),
              *mean = l.persistent(first + 2), *variance = l.persistent(first + 3);
  const double epsilon = static_cast<double>(op.epsilon);
  const auto scale = [=](std::int64_t k) {
    return static_cast<double>(gamma[k]) / std::sqrt(static_cast<double>(variance[k]) + epsilon);
  };
  l.prepare_output(0, [=](float* to) {
    return [=] {
      for (std::int64_t k = 0; k < channels; ++k) {
        const double s = scale(k);
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t i = r * channels + k;
          to[i] = static_cast<float>(static_cast<double>(kernel[i]) * s);
        }
      }
    };
  });
  l.prepare_output(1, [=](float* to) {
    return [=] {
      for (std::int64_t k = 0; k < channels; ++k) {
        const double b = bias != nullptr ? static_cast<double>(bias[k]) : 0.0;
        to[k] = static_cast<float>((b - static_cast<double>(mean[k])) * scale(k) +
                                   static_cast<double>(beta[k]));
      }
    };
  });
}

}  // namespace trainer::backend::cpu
