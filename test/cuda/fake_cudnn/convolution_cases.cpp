#include "cuda/fake_cudnn/convolution_cases.h"

#include <stdexcept>

#include "cuda/fake_cudnn/support.h"

namespace trainer::test {
namespace {

using backend::cuda::ConvolutionProblem;
using Pass = ConvolutionProblem::Pass;

// Arrays of one problem as numbers, and what each pass makes of them by the definition.
struct Reference {
  ConvolutionProblem p;
  std::int64_t rows, columns, in;  // of y; channels of a group
  std::vector<double> x, kernel, y;

  explicit Reference(const ConvolutionProblem& problem)
      : p(problem),
        rows(p.window.output(p.h, 0)),
        columns(p.window.output(p.w, 1)),
        in(p.c / p.groups) {}

  std::int64_t x_count() const { return p.n * p.h * p.w * p.c; }
  std::int64_t kernel_count() const { return p.out * p.window.size[0] * p.window.size[1] * in; }
  std::int64_t y_count() const { return p.n * rows * columns * p.out; }

  // Calls visit(index in x, index in kernel, index in y) for every product of the convolution.
  template <class Visit>
  void each_product(const Visit& visit) const {
    const graph::Window& w = p.window;
    for (std::int64_t yi = 0; yi < y_count(); ++yi) {
      const std::int64_t k = yi % p.out, q = yi / p.out % columns;
      const std::int64_t row = yi / p.out / columns % rows, n = yi / p.out / columns / rows;
      for (std::int64_t r = 0; r < w.size[0]; ++r) {
        for (std::int64_t s = 0; s < w.size[1]; ++s) {
          const std::int64_t h = row * w.stride[0] + r * w.dilation[0] - w.pad_before[0];
          const std::int64_t v = q * w.stride[1] + s * w.dilation[1] - w.pad_before[1];
          if (h < 0 || h >= p.h || v < 0 || v >= p.w) continue;
          for (std::int64_t c = 0; c < in; ++c) {
            const std::int64_t channel = k / (p.out / p.groups) * in + c;
            visit(((n * p.h + h) * p.w + v) * p.c + channel,
                  ((k * w.size[0] + r) * w.size[1] + s) * in + c, yi);
          }
        }
      }
    }
  }
};

std::vector<double> factors(const DeviceArray& array, const ConvolutionProblem& p) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < array.count(); ++i) {
    values.push_back(p.tf32 ? fake::rounded_to_tf32(array[i]) : array[i]);
  }
  return values;
}

std::vector<double> expected_y(const Reference& ref, const DeviceArray& x,
                               const DeviceArray& kernel, const DeviceArray& bias) {
  const auto xs = factors(x, ref.p), ks = factors(kernel, ref.p);
  std::vector<double> y(static_cast<std::size_t>(ref.y_count()));
  ref.each_product([&](auto xi, auto ki, auto yi) {
    y[static_cast<std::size_t>(yi)] +=
        xs[static_cast<std::size_t>(xi)] * ks[static_cast<std::size_t>(ki)];
  });
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (ref.p.bias) y[i] += bias[static_cast<std::int64_t>(i) % ref.p.out];
    if (ref.p.relu && y[i] < 0) y[i] = 0;
  }
  return y;
}

std::vector<double> expected_x(const Reference& ref, const DeviceArray& kernel,
                               const DeviceArray& y) {
  const auto ks = factors(kernel, ref.p), ys = factors(y, ref.p);
  std::vector<double> x(static_cast<std::size_t>(ref.x_count()));
  ref.each_product([&](auto xi, auto ki, auto yi) {
    x[static_cast<std::size_t>(xi)] +=
        ks[static_cast<std::size_t>(ki)] * ys[static_cast<std::size_t>(yi)];
  });
  return x;
}

std::vector<double> expected_kernel(const Reference& ref, const DeviceArray& x,
                                    const DeviceArray& y) {
  const auto xs = factors(x, ref.p), ys = factors(y, ref.p);
  std::vector<double> kernel(static_cast<std::size_t>(ref.kernel_count()));
  ref.each_product([&](auto xi, auto ki, auto yi) {
    kernel[static_cast<std::size_t>(ki)] +=
        xs[static_cast<std::size_t>(xi)] * ys[static_cast<std::size_t>(yi)];
  });
  return kernel;
}

ConvolutionProblem problem(std::int64_t h, std::int64_t w, std::int64_t in, std::int64_t out,
                           graph::Window window, std::int64_t groups = 1) {
  ConvolutionProblem p;
  p.n = 2;
  p.h = h;
  p.w = w;
  p.c = in;
  p.out = out;
  p.groups = groups;
  p.window = window;
  return p;
}

}  // namespace

std::vector<ConvolutionCase> convolution_table() {
  return {
      {"1x1", problem(5, 4, 6, 5, {})},
      {"1x1 stride 2", problem(6, 5, 3, 4, {.stride = {2, 2}})},
      {"3x3", problem(7, 6, 4, 3, {.size = {3, 3}})},
      {"3x3 same", problem(6, 7, 3, 4, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}})},
      {"one channel", problem(6, 5, 1, 1, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}})},
      {"padded below and right", problem(8, 6, 3, 4, {{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}})},
      {"padded unevenly", problem(5, 6, 3, 2, {{3, 3}, {1, 1}, {1, 1}, {2, 1}, {0, 2}})},
      {"2x4", problem(6, 7, 3, 2, {{2, 4}, {1, 1}, {1, 1}, {0, 1}, {1, 2}})},
      {"stride 3 and 1", problem(9, 5, 2, 3, {{3, 3}, {3, 1}, {1, 1}, {1, 1}, {1, 1}})},
      {"stride that leaves pixels", problem(8, 9, 2, 3, {.size = {3, 3}, .stride = {3, 4}})},
      {"dilation 2 and 3", problem(9, 10, 2, 3, {{3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}})},
      {"5x5 stride 2", problem(9, 8, 2, 3, {{5, 5}, {2, 2}, {1, 1}, {1, 2}, {2, 1}})},
      {"2 groups", problem(5, 6, 6, 4, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 2)},
      {"4 groups of 1x1", problem(4, 5, 8, 12, {}, 4)},
      {"depthwise", problem(5, 6, 3, 6, {{3, 3}, {2, 2}, {1, 1}, {0, 1}, {1, 0}}, 3)},
      {"as large as the image", problem(4, 5, 3, 2, {.size = {4, 5}})},
  };
}

double convolution_error(backend::cuda::ConvolutionPlanner& planner, const ConvolutionProblem& p) {
  const Reference ref(p);
  auto x = DeviceArray::random(p.type, ref.x_count(), 1);
  auto kernel = DeviceArray::random(p.type, ref.kernel_count(), 2);
  auto y = DeviceArray::random(p.type, ref.y_count(), 3);
  const auto bias = DeviceArray::random(p.type, p.out, 4);
  const auto plan = planner.plan(p);
  Workspace workspace(plan->workspace_bytes());
  const auto run = [&](DeviceArray& result) {
    result = DeviceArray(p.type, result.count());
    plan->run(x.data(), kernel.data(), y.data(), p.bias ? bias.data() : nullptr, workspace.data(),
              nullptr);
    if (!workspace.is_kept_to()) throw std::logic_error("a plan wrote behind its workspace");
  };
  switch (p.pass) {
    case Pass::kForward:
      run(y);
      return worst_error(y, expected_y(ref, x, kernel, bias), p.type);
    case Pass::kBackwardData:
      run(x);
      return worst_error(x, expected_x(ref, kernel, y), p.type);
    case Pass::kBackwardWeights:
      run(kernel);
      return worst_error(kernel, expected_kernel(ref, x, y), p.type);
  }
  return 0;
}

}  // namespace trainer::test
