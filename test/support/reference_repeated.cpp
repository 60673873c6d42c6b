// The ops of multiply.cpp, group_norm.cpp and up_sample.cpp of lib/graph/ops.
#include <algorithm>
#include <cmath>

#include "support/reference.h"

namespace trainer::test {
namespace {

// The element of a factor or bias of shape `part` that element i of x goes with.
std::int64_t repeated(const Shape& x, const Shape& part, std::int64_t i) {
  if (part.rank() == 4 && part != x) {
    return i / (x[1] * x[2] * x[3]) * x[3] + i % x[3];
  }
  return i % part.elements();
}

// Calls f(group, channel, element) for every element of x.
template <class Op, class F>
void each_of_groups(const Op& op, const Tensor& x, const F& f) {
  const std::int64_t channels = x.channels(), width = channels / op.groups;
  const std::int64_t rows = op.per_pixel ? 1 : x.size() / channels / x.shape[0];
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % channels;
    f(static_cast<std::size_t>(i / channels / rows * op.groups + c / width), c, i);
  }
}

// (x - mean) / std of each element, and 1 / std of each group.
template <class Op>
Tensor normalised(const Op& op, const Tensor& x, std::vector<double>& inverse_std) {
  const auto all = static_cast<std::size_t>(x.size());
  std::vector<double> mean(all, 0), variance(all, 0), count(all, 0);
  Tensor n = x;
  each_of_groups(op, x, [&](std::size_t g, std::int64_t, std::int64_t i) {
    mean[g] += x[i];
    count[g] += 1;
  });
  each_of_groups(op, x, [&](std::size_t g, std::int64_t, std::int64_t i) {
    const double d = x[i] - mean[g] / count[g];
    n[i] = d;
    variance[g] += d * d / count[g];
  });
  inverse_std.assign(all, 0);
  for (std::size_t g = 0; g < all; ++g)
    inverse_std[g] = 1 / std::sqrt(variance[g] + number(op.epsilon));
  each_of_groups(op, x,
                 [&](std::size_t g, std::int64_t, std::int64_t i) { n[i] *= inverse_std[g]; });
  return n;
}

// Calls f(element of the smaller image, element of the larger, weight).
template <class Op, class F>
void each_of_enlarged(const Op& op, const Shape& small, const Shape& large, const F& f) {
  const bool nearest = op.kind == graph::UpSample::Kind::kNearest;
  const auto neighbours = [nearest](std::int64_t at, std::int64_t factor, std::int64_t size) {
    if (nearest) return std::vector<std::pair<std::int64_t, double>>{{at / factor, 1.0}};
    const double place = (static_cast<double>(at) + 0.5) / static_cast<double>(factor) - 0.5;
    const auto before = static_cast<std::int64_t>(std::floor(place));
    const double share = place - static_cast<double>(before);
    return std::vector<std::pair<std::int64_t, double>>{
        {std::clamp<std::int64_t>(before, 0, size - 1), 1 - share},
        {std::clamp<std::int64_t>(before + 1, 0, size - 1), share}};
  };
  for (std::int64_t i = 0; i < large.elements(); ++i) {
    const std::int64_t c = i % large[3], x = i / large[3] % large[2];
    const std::int64_t y = i / (large[3] * large[2]) % large[1];
    const std::int64_t n = i / (large[3] * large[2] * large[1]);
    for (const auto& [row, down] : neighbours(y, op.height, small[1])) {
      for (const auto& [column, across] : neighbours(x, op.width, small[2])) {
        f(((n * small[1] + row) * small[2] + column) * small[3] + c, i, down * across);
      }
    }
  }
}

}  // namespace

template <>
void evaluate(const graph::Multiply&, const Site& s) {
  const Tensor &x = s.in(0), &factor = s.in(1);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    s.out(0)[i] = x[i] * factor[repeated(x.shape, factor.shape, i)];
  }
}

template <>
void evaluate(const graph::AddBias&, const Site& s) {
  const Tensor &x = s.in(0), &bias = s.in(1);
  for (std::int64_t i = 0; i < x.size(); ++i) s.out(0)[i] = x[i] + bias[i % bias.size()];
}

template <>
void evaluate(const graph::SumProduct&, const Site& s) {
  const Tensor& a = s.in(0);
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const double b = s.inputs.size() == 2 ? s.in(1)[i] : 1;
    s.out(0)[repeated(a.shape, s.out(0).shape, i)] += a[i] * b;
  }
}

namespace {

// The norms of the channels of a sample, and their mean with epsilon.
struct Response {
  std::vector<double> norms;
  double mean = 0;
};

// `norm` returns the norm of a channel.
template <class F>
Response response(std::int64_t channels, double epsilon, const F& norm) {
  Response r;
  for (std::int64_t c = 0; c < channels; ++c) {
    r.norms.push_back(norm(c));
    r.mean += r.norms.back() / static_cast<double>(channels);
  }
  r.mean += epsilon;
  return r;
}

}  // namespace

template <>
void evaluate(const graph::ResponseNorm& op, const Site& s) {
  const Tensor &x = s.in(0), &gamma = s.in(1);
  const std::int64_t channels = x.channels(), pixels = x.shape[1] * x.shape[2];
  for (std::int64_t n = 0; n < x.shape[0]; ++n) {
    const Response r = response(channels, number(op.epsilon), [&](std::int64_t c) {
      double squares = 0;
      for (std::int64_t p = 0; p < pixels; ++p) {
        const double each = x[(n * pixels + p) * channels + c];
        squares += each * each;
      }
      return std::sqrt(squares);
    });
    for (std::int64_t c = 0; c < channels; ++c) {
      const double norm = r.norms[static_cast<std::size_t>(c)];
      s.out(0)[n * channels + c] = 1 + gamma[c] * norm / r.mean;
      s.out(1)[n * channels + c] = norm;
    }
  }
}

// Each output depends on all norms: d factor_k / d norm_c = gamma_k * ([k == c] / mean - norm_k /
// (channels * mean^2)), and d norm_c / dx = x / norm_c.
template <>
void evaluate(const graph::ResponseNormBackward& op, const Site& s) {
  const Tensor &norms = s.in(0), &gamma = s.in(1), &dy = s.in(2);
  const std::int64_t channels = norms.channels();
  for (std::int64_t first = 0; first < norms.size(); first += channels) {
    const Response r =
        response(channels, number(op.epsilon), [&](std::int64_t c) { return norms[first + c]; });
    for (std::int64_t c = 0; c < channels; ++c) {
      double slope = 0;
      for (std::int64_t k = 0; k < channels; ++k) {
        const double own = k == c ? 1 / r.mean : 0;
        slope += dy[first + k] * gamma[k] *
                 (own - norms[first + k] / (static_cast<double>(channels) * r.mean * r.mean));
      }
      const double norm = norms[first + c];
      s.out(0)[first + c] = norm > 0 ? slope / norm : 0;
      s.out(1)[first + c] = dy[first + c] * norm / r.mean;
    }
  }
}

template <>
void evaluate(const graph::GroupNorm& op, const Site& s) {
  std::vector<double> inverse_std;
  const Tensor n = normalised(op, s.in(0), inverse_std);
  for (std::int64_t i = 0; i < s.in(0).size(); ++i) {
    const std::int64_t c = i % s.in(0).channels();
    s.out(0)[i] = n[i] * s.in(1)[c] + s.in(2)[c];
  }
}

template <>
void evaluate(const graph::GroupNormBackward& op, const Site& s) {
  const Tensor &x = s.in(0), &dy = s.in(1), &gamma = s.in(2);
  std::vector<double> inverse_std;
  const Tensor n = normalised(op, x, inverse_std);
  std::vector<double> sum(n.data.size(), 0), sum_n = sum, count = sum;
  each_of_groups(op, x, [&](std::size_t g, std::int64_t c, std::int64_t i) {
    const double each = n[i];
    sum[g] += dy[i] * gamma[c];
    sum_n[g] += dy[i] * gamma[c] * each;
    count[g] += 1;
    s.out(1)[c] += dy[i] * each;
    s.out(2)[c] += dy[i];
  });
  each_of_groups(op, x, [&](std::size_t g, std::int64_t c, std::int64_t i) {
    const double each = n[i];
    s.out(0)[i] = (dy[i] * gamma[c] - (sum[g] + each * sum_n[g]) / count[g]) * inverse_std[g];
  });
}

template <>
void evaluate(const graph::UpSample& op, const Site& s) {
  each_of_enlarged(op, s.in(0).shape, s.out(0).shape,
                   [&s](std::int64_t small, std::int64_t large, double weight) {
                     s.out(0)[large] += weight * s.in(0)[small];
                   });
}

template <>
void evaluate(const graph::UpSampleBackward& op, const Site& s) {
  each_of_enlarged(op, s.out(0).shape, s.in(0).shape,
                   [&s](std::int64_t small, std::int64_t large, double weight) {
                     s.out(0)[small] += weight * s.in(0)[large];
                   });
}

}  // namespace trainer::test
