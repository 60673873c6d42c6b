#include <algorithm>
#include <cmath>

#include "backend/cpu/ops/kernel_helpers.h"

namespace trainer::backend::cpu {

template <>
void lower(const graph::Softmax&, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const std::int64_t n = x.c(), rows = x.shape.elements() / n;
  with_type(x.type, [&]<class T>() {
    l.emit("rows", [=](const CallContext& c) {
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

template <>
void lower(const graph::SoftmaxBackward&, Lowering& l) {
  const Operand y = l.input(0, Layout::kPlain);
  const Operand dy = l.input(1, Layout::kPlain);
  const Operand dx = l.output(0, Layout::kPlain);
  const std::int64_t n = y.c(), rows = y.shape.elements() / n;
  with_type(y.type, [&]<class T>() {
    l.emit("rows", [=](const CallContext& c) {
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

}  // namespace trainer::backend::cpu
