#include "reference_backend/batch_statistics.h"

#include <cmath>

namespace trainer::test {
namespace {

// Sums by channel over the elements of x on all ranks, and behind them the number of elements of a
// channel. add(i, c) is what element i of channel c counts.
template <class Add>
std::vector<double> sums_over_ranks(const Tensor& x, cluster::Communicator& ranks, const Add& add) {
  const std::int64_t channels = x.channels();
  std::vector<double> sums(static_cast<std::size_t>(channels) + 1);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    sums[static_cast<std::size_t>(i % channels)] += add(i, i % channels);
  }
  sums.back() = static_cast<double>(x.size() / channels);
  ranks.all_reduce(std::span<double>(sums));
  return sums;
}

}  // namespace

void batch_norm_over_ranks(const graph::BatchNorm& op, const Site& s,
                           cluster::Communicator& ranks) {
  const Tensor& x = s.in(0);
  Tensor &y = s.out(0), &mean = s.out(1), &inverse_std = s.out(2);
  const std::int64_t channels = x.channels();
  const auto at = [](const std::vector<double>& sums, std::int64_t c) {
    return sums[static_cast<std::size_t>(c)] / sums.back();
  };
  const auto values = sums_over_ranks(x, ranks, [&](std::int64_t i, std::int64_t) { return x[i]; });
  for (std::int64_t c = 0; c < channels; ++c) mean[c] = at(values, c);
  const auto squares = sums_over_ranks(x, ranks, [&](std::int64_t i, std::int64_t c) {
    return (x[i] - mean[c]) * (x[i] - mean[c]);
  });
  for (std::int64_t c = 0; c < channels; ++c) {
    inverse_std[c] = 1 / std::sqrt(at(squares, c) + static_cast<double>(op.epsilon));
  }
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % channels;
    y[i] = activate(op.activation, (x[i] - mean[c]) * inverse_std[c] * s.in(1)[c] + s.in(2)[c]);
  }
}

void batch_norm_over_ranks(const graph::BatchNormBackward& op, const Site& s,
                           cluster::Communicator& ranks) {
  const Tensor &x = s.in(0), &dy = s.in(1), &gamma = s.in(2), &mean = s.in(3), &scale = s.in(4);
  Tensor &dx = s.out(0), &dgamma = s.out(1), &dbeta = s.out(2);
  const std::int64_t channels = x.channels();
  const auto xhat = [&](std::int64_t i, std::int64_t c) { return (x[i] - mean[c]) * scale[c]; };
  Tensor g = dy;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % channels;
    double& each = g[i];
    if (!op.activation.linear()) each *= slope_at_output(op.activation, s.in(5)[i]);
    dgamma[c] += each * xhat(i, c);
    dbeta[c] += each;
  }
  const auto sum_g = sums_over_ranks(x, ranks, [&](std::int64_t i, std::int64_t) { return g[i]; });
  const auto sum_g_xhat =
      sums_over_ranks(x, ranks, [&](std::int64_t i, std::int64_t c) { return g[i] * xhat(i, c); });
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % channels;
    const auto k = static_cast<std::size_t>(c);
    const double mean_part = (sum_g[k] + xhat(i, c) * sum_g_xhat[k]) / sum_g.back();
    dx[i] = gamma[c] * scale[c] * (g[i] - mean_part);
  }
}

}  // namespace trainer::test
