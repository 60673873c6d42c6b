#include <cmath>
#include <vector>

#include "support/reference.h"

namespace trainer::test {
namespace {

using graph::Activation;

// Both forms: normalised = (x - mean) * scale; in training form mean and scale depend on x.
void norm_backward(const Activation& activation, const Tensor& scale, bool training,
                   const Site& s) {
  const Tensor &x = s.in(0), &dy = s.in(1), &gamma = s.in(2), &mean = s.in(3);
  Tensor &dx = s.out(0), &dgamma = s.out(1), &dbeta = s.out(2);
  const std::int64_t channels = x.channels();
  const double count = static_cast<double>(x.size() / channels);
  Tensor g = dy;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % channels;
    double& each = g[i];
    if (!activation.linear()) each *= slope_at_output(activation, s.in(5)[i]);
    dgamma[c] += each * (x[i] - mean[c]) * scale[c];
    dbeta[c] += each;
  }
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % channels;
    double d = g[i];
    if (training) d -= (dbeta[c] + (x[i] - mean[c]) * scale[c] * dgamma[c]) / count;
    dx[i] = gamma[c] * scale[c] * d;
  }
}

Tensor inverse_deviation(const Tensor& variance, float epsilon) {
  Tensor scale = variance;
  for (double& v : scale.data) v = 1 / std::sqrt(v + number(epsilon));
  return scale;
}

}  // namespace

template <>
void evaluate(const graph::BatchNorm& op, const Site& s) {
  const Tensor& x = s.in(0);
  Tensor &y = s.out(0), &mean = s.out(1), &inverse_std = s.out(2);
  const std::int64_t channels = x.channels();
  const double count = static_cast<double>(x.size() / channels);
  Tensor variance = mean;  // zeros
  for (std::int64_t i = 0; i < x.size(); ++i) mean[i % channels] += x[i] / count;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - mean[i % channels];
    variance[i % channels] += d * d / count;
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    inverse_std[c] = 1 / std::sqrt(variance[c] + number(op.epsilon));
  }
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % channels;
    y[i] = activate(op.activation, (x[i] - mean[c]) * inverse_std[c] * s.in(1)[c] + s.in(2)[c]);
  }
}

template <>
void evaluate(const graph::BatchNormBackward& op, const Site& s) {
  norm_backward(op.activation, s.in(4), true, s);
}

template <>
void evaluate(const graph::BatchNormInferenceBackward& op, const Site& s) {
  norm_backward(op.activation, inverse_deviation(s.in(4), op.epsilon), false, s);
}

template <>
void evaluate(const graph::UpdateStatistics& op, const Site& s) {
  const double keep = number(op.momentum);
  for (std::int64_t c = 0; c < s.in(0).size(); ++c) {
    const double is = s.in(3)[c];
    s.in(0)[c] = s.in(0)[c] * keep + s.in(2)[c] * (1 - keep);
    s.in(1)[c] = s.in(1)[c] * keep + (1 / (is * is) - number(op.epsilon)) * (1 - keep);
  }
  s.out(0) = s.in(0);
  s.out(1) = s.in(1);
}

template <>
void evaluate(const graph::BatchNormInference& op, const Site& s) {
  const Tensor &x = s.in(0), &gamma = s.in(1), &beta = s.in(2), &mean = s.in(3);
  const Tensor scale = inverse_deviation(s.in(4), op.epsilon);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % x.channels();
    s.out(0)[i] = activate(op.activation, (x[i] - mean[c]) * scale[c] * gamma[c] + beta[c]);
  }
}

template <>
void evaluate(const graph::FoldBatchNorm& op, const Site& s) {
  const std::size_t first = op.bias ? 2 : 1;
  const Tensor &gamma = s.in(first), &beta = s.in(first + 1), &mean = s.in(first + 2);
  const Tensor scale = inverse_deviation(s.in(first + 3), op.epsilon);
  const std::int64_t channels = gamma.size();
  for (std::int64_t i = 0; i < s.in(0).size(); ++i) {
    s.out(0)[i] = s.in(0)[i] * gamma[i % channels] * scale[i % channels];
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    s.out(1)[c] = ((op.bias ? s.in(1)[c] : 0) - mean[c]) * gamma[c] * scale[c] + beta[c];
  }
}

}  // namespace trainer::test
