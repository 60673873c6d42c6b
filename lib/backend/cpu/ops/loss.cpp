// Losses with their gradients, softmax as a layer, and the L2 penalty: rows of a few numbers.
#include <algorithm>
#include <cmath>

#include "backend/cpu/ops/kernel_helpers.h"

namespace trainer::backend::cpu {
namespace {

void assign(float& to, float x) { to = x; }
void assign(simd::BFloat16& to, float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  to.bits = static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// The targets of one sample, from a class index or from numbers, smoothed as Keras does.
struct Targets {
  const std::int32_t* index = nullptr;
  const float* numbers = nullptr;
  std::int64_t n = 1;
  std::int64_t row = 1;  // numbers a sample: n, and its weight where samples have one

  float at(std::int64_t sample, std::int64_t i) const {
    if (numbers != nullptr) return numbers[sample * row + i];
    if (n == 1) return static_cast<float>(index[sample]);
    return index[sample] == i ? 1.0f : 0.0f;
  }
};

// The class of a sample: the index, or the place of the largest target, the first of equals.
std::size_t class_of(const Targets& t, std::int64_t s) {
  if (t.index != nullptr) return static_cast<std::size_t>(t.index[s]);
  const float* row = t.numbers + s * t.row;
  if (t.n == 1) return row[0] > 0.5f ? 1 : 0;
  return static_cast<std::size_t>(std::max_element(row, row + t.n) - row);
}

// With log p = l: (1 - p)^gamma l, and its derivative by log p, which is finite where p is 1.
struct FocalTerm {
  float value, slope;
};
FocalTerm focal_term(float l, float gamma) {
  const float missed = -std::expm1(l);
  const float factor = std::pow(missed, gamma);
  if (missed <= 0) return {factor * l, -factor};
  return {factor * l, gamma * std::exp(l) * (factor / missed) * l - factor};
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

// w q^gamma b with the cross-entropy b and q = t (1 - p) + (1 - t) p, the share that p misses t by;
// d/dx = w (gamma q^(gamma - 1) b p (1 - p) (1 - 2 t) + q^gamma (p - t)).
struct BinaryFocal {
  float loss, gradient;
};
BinaryFocal binary_focal(float x, float target, float cross_entropy, const graph::Focal& focal) {
  const float p = 1 / (1 + std::exp(-x)), rest = 1 / (1 + std::exp(x));
  const float missed = target * rest + (1 - target) * p;
  const float factor = std::pow(missed, focal.gamma);
  const float weight =
      focal.alpha < 0 ? 1 : target * focal.alpha + (1 - target) * (1 - focal.alpha);
  const float turn = missed > 0 ? focal.gamma * (factor / missed) * cross_entropy : 0;
  return {weight * factor * cross_entropy,
          weight * (turn * p * rest * (1 - 2 * target) + factor * (p - target))};
}

// mean of max(x, 0) - x t + log(1 + exp(-|x|)); d/dx = sigmoid(x) - t.
template <class T>
float binary_cross_entropy(const T* x, T* dx, const Targets& t, std::int64_t s,
                           const graph::Loss& op, float scale) {
  const float share = 1.0f / static_cast<float>(t.n), smoothing = op.label_smoothing;
  float loss = 0;
  for (std::int64_t i = 0; i < t.n; ++i) {
    const float v = as_float(x[i]);
    const float target = t.at(s, i) * (1 - smoothing) + 0.5f * smoothing;
    const float one = (v < 0 ? 0 : v) - v * target + std::log1p(std::exp(-std::abs(v)));
    if (op.focal) {
      const BinaryFocal focal = binary_focal(v, target, one, *op.focal);
      loss += focal.loss;
      if (dx != nullptr) assign(dx[i], focal.gradient * share * scale);
      continue;
    }
    loss += one;
    if (dx != nullptr) assign(dx[i], (1 / (1 + std::exp(-v)) - target) * share * scale);
  }
  return loss * share;
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

void lower(const graph::Loss& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain);
  const Operand labels = l.input(1, Layout::kPlain);
  const Buffer loss = l.output(0, Layout::kPlain).buffer;
  const Buffer dx = op.gradient ? l.output(1, Layout::kPlain).buffer : -1;
  const std::int64_t n = x.shape.elements() / x.n();
  with_type(x.type, [&]<class T>() {
    const auto one = op.kind == LossKind::kSoftmaxCrossEntropy  ? softmax_cross_entropy<T>
                     : op.kind == LossKind::kBinaryCrossEntropy ? binary_cross_entropy<T>
                                                                : mean_squared_error<T>;
    l.step("rows", [=](const RunContext& c) {
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
        float weight = op.class_weight.empty() ? 1.0f : op.class_weight[class_of(targets, s)];
        if (op.sample_weight && targets.numbers != nullptr)
          weight *= targets.numbers[s * targets.row + n];
        c.at<float>(loss)[s] = weight * one(in + s * n, out != nullptr ? out + s * n : nullptr,
                                            targets, s, op, weight * scale);
      }
    });
  });
}

void lower(const graph::Softmax&, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const std::int64_t n = x.c(), rows = x.shape.elements() / n;
  with_type(x.type, [&]<class T>() {
    l.step("rows", [=](const RunContext& c) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const T* in = c.at<T>(x.buffer) + r * n;
        T* out = c.at<T>(y.buffer) + r * n;
        float most = as_float(in[0]), sum = 0;
        for (std::int64_t i = 1; i < n; ++i) most = std::max(most, as_float(in[i]));
        for (std::int64_t i = 0; i < n; ++i) sum += std::exp(as_float(in[i]) - most);
        for (std::int64_t i = 0; i < n; ++i) assign(out[i], std::exp(as_float(in[i]) - most) / sum);
      }
    });
  });
}

void lower(const graph::SoftmaxBackward&, Lowering& l) {
  const Operand y = l.input(0, Layout::kPlain);
  const Operand dy = l.input(1, Layout::kPlain);
  const Operand dx = l.output(0, Layout::kPlain);
  const std::int64_t n = y.c(), rows = y.shape.elements() / n;
  with_type(y.type, [&]<class T>() {
    l.step("rows", [=](const RunContext& c) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const T *p = c.at<T>(y.buffer) + r * n, *g = c.at<T>(dy.buffer) + r * n;
        T* out = c.at<T>(dx.buffer) + r * n;
        float dot = 0;
        for (std::int64_t i = 0; i < n; ++i) dot += as_float(p[i]) * as_float(g[i]);
        for (std::int64_t i = 0; i < n; ++i)
          assign(out[i], as_float(p[i]) * (as_float(g[i]) - dot));
      }
    });
  });
}

void lower(const graph::L2Penalty& op, Lowering& l) {
  const Buffer w = l.input(0, Layout::kPlain).buffer;
  const Buffer y = l.output(0, Layout::kPlain).buffer;
  const std::int64_t count = l.shape_of_input(0).elements();
  const double squares = static_cast<double>(op.factor), absolutes = static_cast<double>(op.l1);
  l.step(l.kernels().name, [=, &kernels = l.kernels()](const RunContext& c) {
    const float* from = c.at<float>(w);
    double sum = 0;
    if (c.first && squares != 0) sum += squares * kernels.sum_of_squares(from, count);
    if (c.first && absolutes != 0) sum += absolutes * kernels.sum_of_absolutes(from, count);
    *c.at<float>(y) = static_cast<float>(sum);
  });
}

}  // namespace trainer::backend::cpu
