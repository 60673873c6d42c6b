#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/simd/ops/activation.inl"

namespace trainer::backend::cpu {
namespace {

// A function and its derivative in double precision.
struct Reference {
  double (*value)(double x);
  double (*derivative)(double x);
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double distribution(double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }
double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0)); }

const Reference kSwish{[](double x) { return x * logistic(x); },
                       [](double x) { return logistic(x) * (1 + x * logistic(-x)); }};
const Reference kHardSwish{[](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); },
                           [](double x) { return x <= -3  ? 0.0
                                                 : x >= 3 ? 1.0
                                                          : x / 3 + 0.5; }};
const Reference kGelu{[](double x) { return x * distribution(x); },
                      [](double x) { return distribution(x) + x * density(x); }};

// Numbers of both signs up to 200, whose exponentials leave the range of floats.
template <class T>
std::vector<T> make_numbers() {
  std::vector<T> numbers;
  for (int i = -2000; i <= 2000; ++i) {
    T number;
    assign(number, static_cast<float>(i) * (std::abs(i) > 1000 ? 0.1f : 0.01f));
    numbers.push_back(number);
  }
  return numbers;
}

template <class T>
void compare(const typename simd::ActivationKernels<T>::Kind& kind, const Reference& reference) {
  const double precision = sizeof(T) == 2 ? 1.0 / 256 : 4e-7;
  const std::vector<T> x = make_numbers<T>();
  const std::size_t count = x.size();
  std::vector<T> y(count), dy(count), dx(count), again(count);
  for (T& d : dy) assign(d, -3);
  kind.forward(x.data(), y.data(), static_cast<std::int64_t>(count));
  kind.backward(x.data(), dy.data(), dx.data(), static_cast<std::int64_t>(count));
  double value_error = 0, derivative_error = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double v = as_float(x[i]), value = reference.value(v);
    const double gradient = -3 * reference.derivative(v);
    value_error = std::max(value_error, std::abs(as_float(y[i]) - value) / (1 + std::abs(value)));
    derivative_error = std::max(derivative_error, std::abs(as_float(dx[i]) - gradient));
  }
  CHECK(value_error < precision);
  CHECK(derivative_error < 6 * precision);
  // Threads divide the numbers anywhere.
  kind.backward(x.data() + 3, dy.data(), again.data(), 29);
  for (std::size_t i = 0; i < 29; ++i) CHECK(as_float(again[i]) == as_float(dx[i + 3]));
}

template <class T>
void compare_not_finite(const typename simd::ActivationKernels<T>::Kind& kind) {
  T values[3], y[3], dx[3];
  assign(values[0], std::numeric_limits<float>::quiet_NaN());
  assign(values[1], std::numeric_limits<float>::infinity());
  assign(values[2], 1);
  kind.forward(values, y, 3);
  CHECK(std::isnan(as_float(y[0])));
  CHECK(std::isinf(as_float(y[1])));
  kind.backward(values, values + 2, dx, 1);
  CHECK(std::isnan(as_float(dx[0])));
  kind.backward(values + 2, values, dx, 1);
  CHECK(std::isnan(as_float(dx[0])));
}

}  // namespace

TEST_CASE("activation kernels: hard_swish, swish and GELU match double precision far from 0, too") {
  int tested = 0;
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const simd::Kernels* level = simd::kernels_named(name);
    if (level == nullptr) continue;
    ++tested;
    CAPTURE(name);
    const auto check = [&]<class T>() {
      const auto& kernels = simd::find_kernels<simd::ActivationKernels<T>>(*level);
      compare<T>(kernels.hard_swish, kHardSwish);
      compare<T>(kernels.swish, kSwish);
      compare<T>(kernels.gelu, kGelu);
      compare_not_finite<T>(kernels.hard_swish);
      compare_not_finite<T>(kernels.swish);
      compare_not_finite<T>(kernels.gelu);
    };
    check.operator()<float>();
    check.operator()<simd::BFloat16>();
  }
  CHECK(tested > 0);
}

}  // namespace trainer::backend::cpu
