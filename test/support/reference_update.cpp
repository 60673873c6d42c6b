#include <algorithm>
#include <cmath>

#include "support/reference.h"

namespace trainer::test {
namespace {

// One element's new value; `slot` is its state.
double step(const graph::SgdRule& r, double g, double w, double rate, double, double** slot) {
  if (r.momentum == 0) return w - rate * g;
  const double m = number(r.momentum);
  double& v = *slot[0];
  v = m * v - rate * g;
  return w + (r.nesterov ? m * v - rate * g : v);
}

double step(const graph::RmsPropRule& r, double g, double w, double rate, double, double** slot) {
  const double rho = number(r.rho), momentum = number(r.momentum);
  double& square = **slot++;
  square = rho * square + (1 - rho) * g * g;
  double* velocity = momentum != 0 ? *slot++ : nullptr;
  double d = square;
  if (r.centered) {
    double& mean = **slot++;
    mean = rho * mean + (1 - rho) * g;
    d -= mean * mean;
  }
  d += number(r.epsilon);
  if (velocity == nullptr) return w - rate * g / std::sqrt(d);
  *velocity = momentum * *velocity + rate * g / std::sqrt(d);
  return w - *velocity;
}

double step(const graph::AdamRule& r, double g, double w, double rate, double t, double** slot) {
  const double b1 = number(r.beta_1), b2 = number(r.beta_2);
  double &m = *slot[0], &v = *slot[1];
  m += (g - m) * (1 - b1);
  v += (g * g - v) * (1 - b2);
  double second = v;
  if (r.amsgrad) second = *slot[2] = std::max(*slot[2], v);
  const double a = rate * std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t));
  return w - a * m / (std::sqrt(second) + number(r.epsilon));
}

double step(const graph::NadamRule& r, double g, double w, double rate, double t, double** slot) {
  const double b1 = number(r.beta_1), b2 = number(r.beta_2);
  double &m = *slot[0], &v = *slot[1];
  m += (g - m) * (1 - b1);
  v += (g * g - v) * (1 - b2);
  const auto momentum = [b1](double i) { return b1 * (1 - 0.5 * std::pow(0.96, i)); };
  double product = 1;
  for (double i = 1; i <= t; ++i) product *= momentum(i);
  const double next = momentum(t + 1);
  const double mean = next * m / (1 - product * next) + (1 - momentum(t)) * g / (1 - product);
  return w - rate * mean / (std::sqrt(v / (1 - std::pow(b2, t))) + number(r.epsilon));
}

double step(const graph::AdagradRule& r, double g, double w, double rate, double, double** slot) {
  double& sum = *slot[0];
  sum += g * g;
  return w - rate * g / std::sqrt(sum + number(r.epsilon));
}

double step(const graph::LionRule& r, double g, double w, double rate, double, double** slot) {
  double& m = *slot[0];
  const double direction = number(r.beta_1) * m + (1 - number(r.beta_1)) * g;
  m = number(r.beta_2) * m + (1 - number(r.beta_2)) * g;
  return w - rate * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
}

// Its step without the rate and the trust ratio: see evaluate().
double step(const graph::LambRule& r, double g, double, double, double t, double** slot) {
  const double b1 = number(r.beta_1), b2 = number(r.beta_2);
  double &m = *slot[0], &v = *slot[1];
  m = b1 * m + (1 - b1) * g;
  v = b2 * v + (1 - b2) * g * g;
  return m / (1 - std::pow(b1, t)) / (std::sqrt(v / (1 - std::pow(b2, t))) + number(r.epsilon));
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace

double penalty_slope(const graph::Update& op, double w) {
  return 2 * number(op.l2) * w + number(op.l1) * (w > 0 ? 1 : w < 0 ? -1 : 0);
}

double compute_norm(const Tensor& w, const Tensor& gradient, const graph::Update& op) {
  double sum = 0;
  for (std::int64_t i = 0; i < w.size(); ++i) {
    const double g = gradient[i] + penalty_slope(op, w[i]);
    sum += g * g;
  }
  return std::sqrt(sum);
}

template <>
void evaluate(const graph::Update& op, const Site& s) {
  using Kind = graph::Clip::Kind;
  Tensor& parameter = s.in(0);
  const std::size_t averages = op.ema > 0 ? 1 : 0;
  const double rate = number(s.scalars.learning_rate) * number(op.learning_rate_multiplier);
  const double limit = number(op.clip.limit);
  double scale = 1;
  if (op.clip.kind == Kind::kNorm || op.clip.kind == Kind::kGlobalNorm) {
    const double norm =
        op.clip.kind == Kind::kNorm ? compute_norm(parameter, s.in(1), op) : s.gradient_norm;
    if (norm > limit) scale = limit / norm;
  }
  const bool lamb = std::holds_alternative<graph::LambRule>(op.rule);
  std::vector<double> steps(lamb ? parameter.data.size() : 0);
  for (std::int64_t i = 0; i < parameter.size(); ++i) {
    double& w = parameter[i];
    double g = (s.in(1)[i] + penalty_slope(op, w)) * scale;
    if (op.clip.kind == Kind::kValue) g = std::clamp(g, -limit, limit);
    w -= rate * number(op.weight_decay) * w;
    double* slot[4] = {};
    for (std::size_t k = 2; k + averages < s.inputs.size(); ++k) slot[k - 2] = &s.in(k)[i];
    double& result = lamb ? steps[static_cast<std::size_t>(i)] : w;
    result = std::visit(
        [&](const auto& rule) {
          return step(rule, g, w, rate, static_cast<double>(s.scalars.update), slot);
        },
        op.rule);
  }
  if (lamb) {
    const double size = norm(parameter.data), length = norm(steps);
    const double trust = size > 0 && length > 0 ? size / length : 1;
    for (std::size_t i = 0; i < steps.size(); ++i) parameter.data[i] -= rate * trust * steps[i];
  }
  for (std::int64_t i = 0; i < parameter.size(); ++i) {
    if (averages > 0) {
      double& average = (*s.inputs.back())[i];
      double keep = s.scalars.update == 1 ? 0 : number(op.ema);
      if (op.ema_warm_up) {
        keep = std::min(keep, 1 - std::pow(static_cast<double>(s.scalars.update), -2.0 / 3));
      }
      average = keep * average + (1 - keep) * parameter[i];
    }
  }
}

}  // namespace trainer::test
