#include <algorithm>
#include <cmath>
#include <limits>

#include "support/reference.h"

namespace trainer::test {
namespace {

using graph::Pool;
using graph::Window;

std::int64_t at(const Shape& s, std::int64_t n, std::int64_t y, std::int64_t x) {
  return ((n * s[1] + y) * s[2] + x) * s[3];
}

// Calls f(output pixel, input pixel, position in the window) for every pair that a window joins;
// pixels as offsets of their first channel.
template <class F>
void slide(const Window& w, const Shape& input, const Shape& output, const F& f) {
  for (std::int64_t n = 0; n < output[0]; ++n) {
    for (std::int64_t oy = 0; oy < output[1]; ++oy) {
      for (std::int64_t ox = 0; ox < output[2]; ++ox) {
        for (std::int64_t ky = 0; ky < w.size[0]; ++ky) {
          for (std::int64_t kx = 0; kx < w.size[1]; ++kx) {
            const std::int64_t iy = oy * w.stride[0] + ky * w.dilation[0] - w.pad_before[0];
            const std::int64_t ix = ox * w.stride[1] + kx * w.dilation[1] - w.pad_before[1];
            if (iy < 0 || ix < 0 || iy >= input[1] || ix >= input[2]) continue;
            f(at(output, n, oy, ox), at(input, n, iy, ix), ky * w.size[1] + kx);
          }
        }
      }
    }
  }
}

// Calls f(output element, input element, kernel element) for every product of a convolution.
template <class F>
void products(const Window& w, std::int64_t groups, const Shape& input, const Shape& output,
              const F& f) {
  const std::int64_t in = input[3] / groups, all_out = output[3], out = all_out / groups;
  slide(w, input, output, [&](std::int64_t to, std::int64_t from, std::int64_t position) {
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t i = 0; i < in; ++i) {
        const std::int64_t k = (position * in + i) * all_out + g * out;
        for (std::int64_t o = 0; o < out; ++o) f(to + g * out + o, from + g * in + i, k + o);
      }
    }
  });
}

void backward_weights(const Window& w, std::int64_t groups, const Tensor& x, const Tensor& dy,
                      Tensor& dkernel, Tensor* dbias) {
  products(w, groups, x.shape, dy.shape,
           [&](std::int64_t o, std::int64_t i, std::int64_t k) { dkernel[k] += x[i] * dy[o]; });
  if (dbias == nullptr) return;
  for (std::int64_t o = 0; o < dy.size(); ++o) (*dbias)[o % dy.channels()] += dy[o];
}

// The first of equal maxima stays; a NaN goes before all numbers and stays too.
bool wins(double v, double best) { return !(v <= best) && !std::isnan(best); }

// y and the winners.
void max_pool(const Window& w, const Tensor& x, Tensor& y, Tensor& index) {
  y.data.assign(y.data.size(), -std::numeric_limits<double>::infinity());
  slide(w, x.shape, y.shape, [&](std::int64_t to, std::int64_t from, std::int64_t position) {
    for (std::int64_t c = 0; c < x.channels(); ++c) {
      if (!wins(x[from + c], y[to + c])) continue;
      y[to + c] = x[from + c];
      index[to + c] = static_cast<double>(position);
    }
  });
}

void max_pool_backward(const Window& w, const Tensor& dy, const Tensor& index, Tensor& dx) {
  slide(w, dx.shape, dy.shape, [&](std::int64_t to, std::int64_t from, std::int64_t position) {
    for (std::int64_t c = 0; c < dx.channels(); ++c) {
      if (index[to + c] == static_cast<double>(position)) dx[from + c] += dy[to + c];
    }
  });
}

Tensor before_activation(const graph::Activation& activation, const Tensor& y, const Tensor& dy) {
  Tensor g = dy;
  for (std::int64_t i = 0; i < g.size(); ++i) g[i] *= slope_at_output(activation, y[i]);
  return g;
}

Tensor zeros(const Shape& shape) {
  return {shape, std::vector<double>(static_cast<std::size_t>(shape.elements()), 0.0)};
}

}  // namespace

template <>
void evaluate(const graph::Conv& op, const Site& s) {
  const Tensor &x = s.in(0), &kernel = s.in(1);
  Tensor& y = s.out(0);
  products(op.window, op.groups, x.shape, y.shape,
           [&](std::int64_t o, std::int64_t i, std::int64_t k) { y[o] += x[i] * kernel[k]; });
  for (std::int64_t o = 0; o < y.size(); ++o) {
    y[o] = activate(op.activation, y[o] + (op.bias ? s.in(2)[o % y.channels()] : 0.0));
  }
}

template <>
void evaluate(const graph::ConvBackwardData& op, const Site& s) {
  const Tensor &dy = s.in(0), &kernel = s.in(1);
  Tensor& dx = s.out(0);
  products(op.window, op.groups, dx.shape, dy.shape,
           [&](std::int64_t o, std::int64_t i, std::int64_t k) { dx[i] += dy[o] * kernel[k]; });
}

template <>
void evaluate(const graph::ConvBackwardWeights& op, const Site& s) {
  backward_weights(op.window, op.groups, s.in(0), s.in(1), s.out(0), op.bias ? &s.out(1) : nullptr);
}

template <>
void evaluate(const Pool& op, const Site& s) {
  const Tensor& x = s.in(0);
  Tensor& y = s.out(0);
  if (op.kind == Pool::Kind::kMax) {
    Tensor index = zeros(y.shape);
    max_pool(op.window, x, y, index);
    if (op.keep_index) s.out(1) = index;
    return;
  }
  Tensor count = zeros(y.shape);
  slide(op.window, x.shape, y.shape, [&](std::int64_t to, std::int64_t from, std::int64_t) {
    for (std::int64_t c = 0; c < x.channels(); ++c) {
      y[to + c] += x[from + c];
      count[to + c] += 1;
    }
  });
  for (std::int64_t i = 0; i < y.size(); ++i) y[i] = count[i] > 0 ? y[i] / count[i] : 0;
}

template <>
void evaluate(const graph::PoolBackward& op, const Site& s) {
  const bool max = op.kind == Pool::Kind::kMax;
  Tensor& dx = s.out(0);
  Tensor dy = s.in(0);
  if (!op.activation.linear()) dy = before_activation(op.activation, s.in(max ? 2 : 1), dy);
  if (max) return max_pool_backward(op.window, dy, s.in(1), dx);
  Tensor count = zeros(dy.shape);
  slide(op.window, dx.shape, dy.shape,
        [&](std::int64_t to, std::int64_t, std::int64_t) { count[to] += 1; });
  slide(op.window, dx.shape, dy.shape, [&](std::int64_t to, std::int64_t from, std::int64_t) {
    for (std::int64_t c = 0; c < dx.channels(); ++c) dx[from + c] += dy[to + c] / count[to];
  });
}

template <>
void evaluate(const graph::GlobalPool& op, const Site& s) {
  const Tensor& x = s.in(0);
  Tensor& y = s.out(0);
  const std::int64_t pixels = x.shape[1] * x.shape[2], channels = x.channels();
  const bool max = op.kind == Pool::Kind::kMax;
  if (max) y.data.assign(y.data.size(), -std::numeric_limits<double>::infinity());
  for (std::int64_t i = 0; i < x.size(); ++i) {
    double& to = y[i / (pixels * channels) * channels + i % channels];
    if (!max) to += x[i] / static_cast<double>(pixels);
    if (max && wins(x[i], to)) to = x[i];
  }
}

template <>
void evaluate(const graph::GlobalPoolBackward& op, const Site& s) {
  Tensor& dx = s.out(0);
  const Tensor& dy = s.in(0);
  const std::int64_t pixels = dx.shape[1] * dx.shape[2], channels = dx.channels();
  std::vector<bool> given(static_cast<std::size_t>(dy.size()), false);
  for (std::int64_t i = 0; i < dx.size(); ++i) {
    const std::int64_t o = i / (pixels * channels) * channels + i % channels;
    if (op.kind == Pool::Kind::kAverage) {
      dx[i] = dy[o] / static_cast<double>(pixels);
    } else if (s.in(1)[i] == s.in(2)[o] && !given[static_cast<std::size_t>(o)]) {
      dx[i] = dy[o];
      given[static_cast<std::size_t>(o)] = true;
    }
  }
}

}  // namespace trainer::test
