// The ops of attention.cpp and tokens.cpp of lib/graph/ops.
#include <cmath>

#include "support/reference.h"

namespace trainer::test {
namespace {

// Finds the elements of tokens in the tensors of an attention op.
struct Heads {
  std::int64_t samples, tokens, heads, channels;  // channels of a head

  Heads(const Tensor& qkv, std::int64_t count)
      : samples(qkv.shape[0]),
        tokens(qkv.shape[1]),
        heads(count),
        channels(qkv.channels() / 3 / count) {}

  std::int64_t y(std::int64_t n, std::int64_t h, std::int64_t t) const {
    return ((n * tokens + t) * heads + h) * channels;
  }
  // `part` is 0 for queries, 1 for keys and 2 for values.
  std::int64_t qkv(std::int64_t part, std::int64_t n, std::int64_t h, std::int64_t t) const {
    return (((n * tokens + t) * 3 + part) * heads + h) * channels;
  }
  double dot(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t c = 0; c < channels; ++c) sum += a[i + c] * b[j + c];
    return sum;
  }
  // The scores of a query with all keys.
  std::vector<double> scores(const Tensor& x, std::int64_t n, std::int64_t h,
                             std::int64_t query) const {
    std::vector<double> row;
    for (std::int64_t key = 0; key < tokens; ++key) {
      row.push_back(dot(x, qkv(0, n, h, query), x, qkv(1, n, h, key)) /
                    std::sqrt(static_cast<double>(channels)));
    }
    return row;
  }
  // Calls f(sample, head, query).
  template <class F>
  void each_query(const F& f) const {
    for (std::int64_t n = 0; n < samples; ++n) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t query = 0; query < tokens; ++query) f(n, h, query);
      }
    }
  }
};

double sum_exponentials(const std::vector<double>& row) {
  double sum = 0;
  for (const double score : row) sum += std::exp(score);
  return sum;
}

}  // namespace

template <>
void evaluate(const graph::Attention& op, const Site& s) {
  const Tensor& x = s.in(0);
  const Heads at(x, op.heads);
  at.each_query([&](std::int64_t n, std::int64_t h, std::int64_t query) {
    const std::vector<double> row = at.scores(x, n, h, query);
    const double sum = sum_exponentials(row);
    for (std::int64_t key = 0; key < at.tokens; ++key) {
      const double p = std::exp(row[static_cast<std::size_t>(key)]) / sum;
      for (std::int64_t c = 0; c < at.channels; ++c) {
        s.out(0)[at.y(n, h, query) + c] += p * x[at.qkv(2, n, h, key) + c];
      }
    }
    if (op.log_sums) s.out(1)[(n * at.heads + h) * at.tokens + query] = std::log(sum);
  });
}

// From the scores alone, without y and the log-sums.
template <>
void evaluate(const graph::AttentionBackward& op, const Site& s) {
  const Tensor &x = s.in(0), &dy = s.in(3);
  Tensor& dx = s.out(0);
  const Heads at(x, op.heads);
  const double factor = 1 / std::sqrt(static_cast<double>(at.channels));
  at.each_query([&](std::int64_t n, std::int64_t h, std::int64_t query) {
    const std::vector<double> row = at.scores(x, n, h, query);
    const double sum = sum_exponentials(row);
    std::vector<double> dp;
    double mean = 0;
    for (std::int64_t key = 0; key < at.tokens; ++key) {
      dp.push_back(at.dot(dy, at.y(n, h, query), x, at.qkv(2, n, h, key)));
      mean += std::exp(row[static_cast<std::size_t>(key)]) / sum * dp.back();
    }
    for (std::int64_t key = 0; key < at.tokens; ++key) {
      const auto k = static_cast<std::size_t>(key);
      const double p = std::exp(row[k]) / sum, ds = p * (dp[k] - mean) * factor;
      for (std::int64_t c = 0; c < at.channels; ++c) {
        dx[at.qkv(0, n, h, query) + c] += ds * x[at.qkv(1, n, h, key) + c];
        dx[at.qkv(1, n, h, key) + c] += ds * x[at.qkv(0, n, h, query) + c];
        dx[at.qkv(2, n, h, key) + c] += p * dy[at.y(n, h, query) + c];
      }
    }
  });
}

template <>
void evaluate(const graph::PrependTokens&, const Site& s) {
  const Tensor &x = s.in(0), &first = s.in(1);
  Tensor& y = s.out(0);
  const std::int64_t sample = y.size() / y.shape[0];
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const std::int64_t n = i / sample, at = i % sample;
    y[i] = at < first.size() ? first[at] : x[n * (sample - first.size()) + at - first.size()];
  }
}

}  // namespace trainer::test
