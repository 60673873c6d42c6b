#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "support/reference.h"

namespace trainer::test {

using graph::Activation;

namespace {

// The constants of Keras's selu, in double precision.
constexpr double kSeluAlpha = 1.6732632423543772, kSeluScale = 1.0507009873554805;

}  // namespace

double activate(const Activation& a, double x) {
  const double alpha = static_cast<double>(a.alpha);
  switch (a.kind) {
    case Activation::Kind::kLinear:
      return x;
    case Activation::Kind::kRelu:
      return std::max(x, 0.0);
    case Activation::Kind::kRelu6:
      return std::min(std::max(x, 0.0), 6.0);
    case Activation::Kind::kLeakyRelu:
      return x > 0 ? x : alpha * x;
    case Activation::Kind::kElu:
      return x > 0 ? x : alpha * (std::exp(x) - 1);
    case Activation::Kind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::Kind::kTanh:
      return std::tanh(x);
    case Activation::Kind::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::Kind::kSwish:
      return x / (1 + std::exp(-x));
    case Activation::Kind::kHardSigmoid:
      return std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::Kind::kHardSwish:
      return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::Kind::kSelu:
      return kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x));
    case Activation::Kind::kNegativePart:
      return std::min(x, 0.0);
    case Activation::Kind::kSoftmax:  // an op of its own
      break;
  }
  throw std::logic_error("unknown activation");
}

double activation_slope(const Activation& a, double x) {
  const double s = 1 / (1 + std::exp(-x));
  switch (a.kind) {
    case Activation::Kind::kGelu:
      return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) +
             x * std::exp(-x * x / 2) / std::sqrt(2 * 3.14159265358979323846);
    case Activation::Kind::kSwish:
      return s + x * s * (1 - s);
    case Activation::Kind::kHardSigmoid:
      return std::abs(x) < 3 ? 1.0 / 6 : 0;
    case Activation::Kind::kHardSwish:
      return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
    case Activation::Kind::kSelu:
      return kSeluScale * (x >= 0 ? 1 : kSeluAlpha * std::exp(x));
    case Activation::Kind::kNegativePart:
      return x < 0 ? 1 : 0;
    default:
      return slope_at_output(a, activate(a, x));
  }
}

double slope_at_output(const Activation& a, double y) {
  const double alpha = static_cast<double>(a.alpha);
  switch (a.kind) {
    case Activation::Kind::kLinear:
      return 1;
    case Activation::Kind::kRelu:
      return y > 0 ? 1 : 0;
    case Activation::Kind::kRelu6:
      return y > 0 && y < 6 ? 1 : 0;
    case Activation::Kind::kLeakyRelu:
      return y > 0 ? 1 : alpha;
    case Activation::Kind::kElu:
      return y > 0 ? 1 : y + alpha;
    case Activation::Kind::kSigmoid:
      return y * (1 - y);
    case Activation::Kind::kTanh:
      return 1 - y * y;
    default:
      throw std::logic_error("not differentiable from its output");
  }
}

}  // namespace trainer::test
