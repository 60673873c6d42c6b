// Losses with their gradients.
#include <algorithm>
#include <cmath>

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/loss_terms.h"

namespace trainer::backend::cpu {
namespace {

// The targets of samples, from class indices or from numbers.
struct Targets {
  const std::int32_t* index = nullptr;
  const float* numbers = nullptr;
  std::int64_t n = 1;
  std::int64_t row = 1;  // numbers per sample: n, or n + 1 if samples have weights

  float at(std::int64_t sample, std::int64_t i) const {
    if (numbers != nullptr) return numbers[sample * row + i];
    if (n == 1) return static_cast<float>(index[sample]);
    return index[sample] == i ? 1.0f : 0.0f;
  }
};

// Returns the class of a sample: the index, or the place of the first largest target.
std::int64_t find_class(const Targets& t, std::int64_t s) {
  if (t.index != nullptr) return t.index[s];
  const float* row = t.numbers + s * t.row;
  if (t.n == 1) return row[0] > 0.5f ? 1 : 0;
  return std::max_element(row, row + t.n) - row;
}

// -alpha sum t (1 - p)^gamma log p; d/dx_j = alpha (t_j h_j - p_j sum(t h)), h_j being the
// derivative of -(1 - p)^gamma log p by log p.
template <class T>
float softmax_focal(const T* x, T* dx, const Targets& t, std::int64_t s, const graph::Loss& op,
                    float log_sum, float scale) {
  const std::int64_t n = t.n;
  const float smoothing = op.label_smoothing, gamma = op.focal->gamma, alpha = op.focal->alpha;
  float loss = 0, pull = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float target = t.at(s, i) * (1 - smoothing) + smoothing / static_cast<float>(n);
    const FocalTerm term = focal_term(as_float(x[i]) - log_sum, gamma);
    loss -= target * term.value;
    pull += target * term.slope;
  }
  for (std::int64_t i = 0; dx != nullptr && i < n; ++i) {
    const float target = t.at(s, i) * (1 - smoothing) + smoothing / static_cast<float>(n);
    const float l = as_float(x[i]) - log_sum;
    const float gradient = target * focal_term(l, gamma).slope - std::exp(l) * pull;
    assign(dx[i], alpha * gradient * scale);
  }
  return alpha * loss;
}

// -sum t log p; d/dx = p * sum(t) - t.
template <class T>
float softmax_cross_entropy(const T* x, T* dx, const Targets& t, std::int64_t s,
                            const graph::Loss& op, float scale) {
  const float smoothing = op.label_smoothing;
  const std::int64_t n = t.n;
  float most = as_float(x[0]);
  for (std::int64_t i = 1; i < n; ++i) most = std::max(most, as_float(x[i]));
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(as_float(x[i]) - most);
  const float log_sum = std::log(sum) + most;
  if (op.focal) return softmax_focal(x, dx, t, s, op, log_sum, scale);
  float loss = 0, mass = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float target = t.at(s, i) * (1 - smoothing) + smoothing / static_cast<float>(n);
    mass += target;
    loss += target * (log_sum - as_float(x[i]));
  }
  if (dx != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) {
      const float target = t.at(s, i) * (1 - smoothing) + smoothing / static_cast<float>(n);
      assign(dx[i], (std::exp(as_float(x[i]) - log_sum) * mass - target) * scale);
    }
  }
  return loss;
}

BinaryTargets binary_targets(const graph::Loss& op) {
  return {op.label_smoothing, op.smoothing_centre, op.target_threshold};
}

// mean of max(x, 0) - x t + log(1 + exp(-|x|)); d/dx = sigmoid(x) - t.
template <class T>
float binary_cross_entropy(const T* x, T* dx, const Targets& t, std::int64_t s,
                           const graph::Loss& op, float scale) {
  const float share = 1.0f / static_cast<float>(t.n);
  const BinaryTargets targets = binary_targets(op);
  float loss = 0;
  for (std::int64_t i = 0; i < t.n; ++i) {
    const float v = as_float(x[i]);
    const float target = targets(t.at(s, i));
    const float one = (v < 0 ? 0 : v) - v * target + std::log1p(std::exp(-std::abs(v)));
    if (op.focal) {
      const BinaryTerm focal = binary_focal(v, target, one, *op.focal);
      loss += focal.loss;
      if (dx != nullptr) assign(dx[i], focal.gradient * share * scale);
      continue;
    }
    loss += one;
    if (dx != nullptr) assign(dx[i], (1 / (1 + std::exp(-v)) - target) * share * scale);
  }
  return loss * share;
}

// Returns binary_cross_entropy() for targets that have weights or of which some are NaN. The terms
// of targets that are NaN are left out.
template <class T>
float masked_binary_cross_entropy(const T* x, T* dx, const Targets& t, std::int64_t s,
                                  const graph::Loss& op, float scale) {
  const float share = 1.0f / static_cast<float>(t.n);
  const BinaryTargets targets = binary_targets(op);
  const float* const weights = op.target_weight.empty() ? nullptr : op.target_weight.data();
  float loss = 0;
  for (std::int64_t i = 0; i < t.n; ++i) {
    BinaryTerm term{0, 0};
    if (!std::isnan(t.at(s, i))) {
      const float v = as_float(x[i]);
      const float target = targets(t.at(s, i));
      const float negative = weights != nullptr ? weights[i] : 1;
      const float positive = weights != nullptr ? weights[t.n + i] : 1;
      term = op.focal ? weighted_focal(v, target, negative, positive, *op.focal)
                      : weighted_term(v, target, negative, positive);
    }
    loss += term.loss;
    if (dx != nullptr) assign(dx[i], term.gradient * share * scale);
  }
  return loss * share;
}

// Returns whether a row has a target that is NaN.
bool has_unknown(const Targets& t, std::int64_t s) {
  if (t.numbers == nullptr) return false;
  const float* const row = t.numbers + s * t.row;
  return std::any_of(row, row + t.n, [](float target) { return std::isnan(target); });
}

template <class T>
float mean_squared_error(const T* x, T* dx, const Targets& t, std::int64_t s, const graph::Loss&,
                         float scale) {
  const float share = 1.0f / static_cast<float>(t.n);
  float loss = 0;
  for (std::int64_t i = 0; i < t.n; ++i) {
    const float d = as_float(x[i]) - t.at(s, i);
    loss += d * d;
    if (dx != nullptr) assign(dx[i], 2 * d * share * scale);
  }
  return loss * share;
}

}  // namespace

template <>
void lower(const graph::Loss& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain);
  const Operand labels = l.input(1, Layout::kPlain);
  const BufferId loss = l.output(0, Layout::kPlain).buffer;
  const BufferId dx = op.gradient ? l.output(1, Layout::kPlain).buffer : -1;
  const std::int64_t n = x.shape.elements() / x.n();
  with_type(x.type, [&]<class T>() {
    const auto one = op.kind == LossKind::kSoftmaxCrossEntropy  ? softmax_cross_entropy<T>
                     : op.kind == LossKind::kBinaryCrossEntropy ? binary_cross_entropy<T>
                                                                : mean_squared_error<T>;
    l.emit("rows", [=](const CallContext& c) {
      Targets targets;
      targets.n = n;
      targets.row = op.sample_weight ? n + 1 : n;
      if (labels.type == DType::kInt32) {
        targets.index = c.at<std::int32_t>(labels.buffer);
      } else {
        targets.numbers = c.at<float>(labels.buffer);
      }
      const float scale = static_cast<float>(c.scalars->loss_scale);
      const T* in = c.at<T>(x.buffer);
      T* out = dx >= 0 ? c.at<T>(dx) : nullptr;
      for (std::int64_t s = 0; s < c.samples; ++s) {
        float weight =
            op.class_weight.empty() ? 1.0f : op.class_weight.data()[find_class(targets, s)];
        if (op.sample_weight && targets.numbers != nullptr)
          weight *= targets.numbers[s * targets.row + n];
        const bool masked = op.kind == LossKind::kBinaryCrossEntropy &&
                            (!op.target_weight.empty() || has_unknown(targets, s));
        const auto loss_of_row = masked ? masked_binary_cross_entropy<T> : one;
        c.at<float>(loss)[s] =
            weight * loss_of_row(in + s * n, out != nullptr ? out + s * n : nullptr, targets, s, op,
                                 weight * scale);
      }
    });
  });
}

}  // namespace trainer::backend::cpu
