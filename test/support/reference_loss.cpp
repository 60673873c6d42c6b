#include <algorithm>
#include <cmath>
#include <vector>

#include "support/reference.h"

namespace trainer::test {
namespace {

// A term of a loss and its derivative by a logit.
struct Slope {
  double loss = 0, slope = 0;
};

// The slope of -alpha t (1 - p)^gamma log p by log p.
Slope softmax_focal(const graph::Focal& focal, double p, double t) {
  const double gamma = number(focal.gamma), alpha = number(focal.alpha);
  const double by_p = gamma * std::pow(1 - p, gamma - 1) * std::log(p) - std::pow(1 - p, gamma) / p;
  return {-alpha * t * std::pow(1 - p, gamma) * std::log(p), alpha * t * by_p * p};
}

// The slope of w q^gamma b: q is the share by which p misses t, and b the cross-entropy.
Slope binary_focal(const graph::Focal& focal, double p, double t) {
  const double gamma = number(focal.gamma), alpha = number(focal.alpha);
  const double weight = alpha < 0 ? 1 : t * alpha + (1 - t) * (1 - alpha);
  const double q = t * (1 - p) + (1 - t) * p;
  const double b = -t * std::log(p) - (1 - t) * std::log(1 - p);
  const double b_by_p = (p - t) / (p * (1 - p)), q_by_p = 1 - 2 * t;
  const double by_p = gamma * std::pow(q, gamma - 1) * q_by_p * b + std::pow(q, gamma) * b_by_p;
  return {weight * std::pow(q, gamma) * b, weight * by_p * p * (1 - p)};
}

// What logit i of a row should be.
double target(const graph::Loss& op, const Tensor& labels, std::int64_t n, std::int64_t row,
              std::int64_t i) {
  const bool index = labels.shape.rank() == 1, binary = op.kind == LossKind::kBinaryCrossEntropy;
  double t = 0;
  if (!index) {
    t = labels[row * (n + (op.sample_weight ? 1 : 0)) + i];
  } else if (n == 1) {
    t = labels[row];
  } else {
    t = labels[row] == static_cast<double>(i) ? 1 : 0;
  }
  const double smoothing = number(op.label_smoothing);
  if (op.kind == LossKind::kSoftmaxCrossEntropy) {
    return t * (1 - smoothing) + smoothing / static_cast<double>(n);
  }
  if (!binary) return t;
  t = t * (1 - smoothing) + smoothing * number(op.smoothing_centre);
  if (op.target_threshold < 0 || std::isnan(t)) return t;
  return t > number(op.target_threshold) ? 1 : 0;
}

// A row's weight is that of its class: its label, or the first of the largest targets.
double weight(const graph::Loss& op, const Tensor& labels, std::int64_t n, std::int64_t row) {
  const bool index = labels.shape.rank() == 1;
  const bool own = op.sample_weight && !index;
  const double of_sample = own ? labels[row * (n + 1) + n] : 1;
  if (op.class_weight.empty()) return of_sample;
  const std::int64_t first = row * (own ? n + 1 : n);
  std::int64_t label = index ? static_cast<std::int64_t>(labels[row]) : 0;
  if (!index && n == 1) label = labels[first] > 0.5 ? 1 : 0;
  for (std::int64_t i = 1; !index && i < n; ++i) {
    if (labels[first + i] > labels[first + label]) label = i;
  }
  return of_sample * number(op.class_weight[static_cast<std::size_t>(label)]);
}

// The slopes of all logits of a row. The log of a chance grows with its own logit and falls by p
// with each.
std::vector<Slope> softmax_loss(const graph::Loss& op, const std::vector<double>& p,
                                const std::vector<double>& targets) {
  std::vector<Slope> all(p.size());
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    all[i] = op.focal ? softmax_focal(*op.focal, p[i], targets[i])
                      : Slope{-targets[i] * std::log(p[i]), -targets[i]};
    sum += all[i].slope;
  }
  for (std::size_t i = 0; i < p.size(); ++i) all[i].slope -= p[i] * sum;
  return all;
}

// The slope of logit i of n. A target of NaN has no loss.
Slope binary_loss(const graph::Loss& op, std::int64_t i, std::int64_t n, double logit, double t) {
  if (std::isnan(t)) return {};
  const double p = 1 / (1 + std::exp(-logit));
  const auto weight = [&](std::int64_t place) {
    return op.target_weight.empty() ? 1 : number(op.target_weight[static_cast<std::size_t>(place)]);
  };
  const double negative = weight(i), positive = weight(n + i);
  if (op.focal) {
    const double mean = negative * (1 - t) + positive * t;
    const Slope focal = binary_focal(*op.focal, p, t);
    return {mean * focal.loss, mean * focal.slope};
  }
  return {-positive * t * std::log(p) - negative * (1 - t) * std::log(1 - p),
          negative * (1 - t) * p - positive * t * (1 - p)};
}

}  // namespace

template <>
void evaluate(const graph::Loss& op, const Site& s) {
  const Tensor &x = s.in(0), &labels = s.in(1);
  const std::int64_t n = x.channels();
  const double count = static_cast<double>(n);
  for (std::int64_t row = 0; row < x.shape[0]; ++row) {
    std::vector<double> p, targets;
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[row * n + i]);
    for (std::int64_t i = 0; i < n; ++i) {
      p.push_back(std::exp(x[row * n + i]) / sum);
      targets.push_back(target(op, labels, n, row, i));
    }
    const double of_class = weight(op, labels, n, row);
    const bool softmax = op.kind == LossKind::kSoftmaxCrossEntropy;
    const std::vector<Slope> of_softmax =
        softmax ? softmax_loss(op, p, targets) : std::vector<Slope>{};
    for (std::int64_t i = 0; i < n; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const double v = x[row * n + i], t = targets[k];
      Slope one;
      if (softmax) {
        one = of_softmax[k];
      } else {
        one = op.kind == LossKind::kBinaryCrossEntropy ? binary_loss(op, i, n, v, t)
                                                       : Slope{(v - t) * (v - t), 2 * (v - t)};
        one.loss /= count;
        one.slope /= count;
      }
      s.out(0)[row] += of_class * one.loss;
      if (op.gradient) s.out(1)[row * n + i] = of_class * one.slope * s.scalars.loss_scale;
    }
  }
}

template <>
void evaluate(const graph::ClassRank& op, const Site& s) {
  const Tensor& logits = s.in(0);
  const Tensor& labels = s.in(1);
  const auto n = static_cast<std::size_t>(logits.shape[1]);
  for (std::size_t row = 0; row < s.out(0).data.size(); ++row) {
    const double* x = logits.data.data() + row * n;
    const bool index = labels.shape.rank() == 1;
    const double* targets =
        labels.data.data() + row * (index ? 1 : static_cast<std::size_t>(labels.shape[1]));
    if (n == 1) {
      s.out(0)[row] = (x[0] > number(op.threshold)) == (targets[0] > 0.5) ? 0 : 1;
      continue;
    }
    const auto label =
        index ? static_cast<std::size_t>(targets[0])
              : static_cast<std::size_t>(std::max_element(targets, targets + n) - targets);
    double rank = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const bool before = x[i] > x[label] || (x[i] == x[label] && i < label);
      rank += before ? 1 : 0;
    }
    s.out(0)[row] = rank;
  }
}

template <>
void evaluate(const graph::L2Penalty& op, const Site& s) {
  for (const double w : s.in(0).data) {
    s.out(0)[0] += number(op.factor) * w * w + number(op.l1) * std::abs(w);
  }
}

}  // namespace trainer::test
