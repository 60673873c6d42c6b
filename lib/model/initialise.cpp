#include "model/initialise.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/numbers/random.h"

namespace trainer::model {
namespace {

using graph::Initial;
using InitializerKind = config::Initializer::Kind;

// The deviation of a normal distribution that is truncated at two deviations.
constexpr double kTruncatedDeviation = .87962566103423978;

Initial uniform(double variance) {
  const double limit = std::sqrt(3 * variance);
  return {Initial::Kind::kUniform, -limit, limit};
}

Initial truncated_normal(double variance) {
  return {Initial::Kind::kTruncatedNormal, 0, std::sqrt(variance) / kTruncatedDeviation};
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// A weight average starts equal to its parameter, so that it draws the same numbers.
std::string_view drawn_name(const graph::Value& value) {
  constexpr std::string_view kAverage = "/average";
  const std::string_view name = value.name;
  const bool average = value.role == graph::Role::kSlot && name.ends_with(kAverage);
  return average ? name.substr(0, name.size() - kAverage.size()) : name;
}

double truncated(Random& random) {
  for (;;) {
    const double z = random.normal();
    if (std::abs(z) < 2) return z;
  }
}

}  // namespace

Initial resolve_initializer(const config::Initializer& initializer, const Fans& fans) {
  const double in = std::max(1.0, fans.in);
  const double both = std::max(1.0, (fans.in + fans.out) / 2);
  switch (initializer.kind) {
    case InitializerKind::kGlorotUniform:
      return uniform(1 / both);
    case InitializerKind::kGlorotNormal:
      return truncated_normal(1 / both);
    case InitializerKind::kHeUniform:
      return uniform(2 / in);
    case InitializerKind::kHeNormal:
      return truncated_normal(2 / in);
    case InitializerKind::kLecunUniform:
      return uniform(1 / in);
    case InitializerKind::kLecunNormal:
      return truncated_normal(1 / in);
    case InitializerKind::kRandomUniform:
      return {Initial::Kind::kUniform, initializer.low, initializer.high};
    case InitializerKind::kRandomNormal:
      return {Initial::Kind::kNormal, initializer.mean, initializer.stddev};
    case InitializerKind::kTruncatedNormal:
      return {Initial::Kind::kTruncatedNormal, initializer.mean, initializer.stddev};
    case InitializerKind::kZeros:
      return {Initial::Kind::kConstant, 0, 0};
    case InitializerKind::kOnes:
      return {Initial::Kind::kConstant, 1, 0};
    case InitializerKind::kConstant:
      return {Initial::Kind::kConstant, initializer.value, 0};
  }
  return {};
}

std::vector<float> initial_values(const graph::Value& value, std::uint64_t seed) {
  std::vector<float> numbers(value.shape.elements());
  const Initial& initial = value.initial;
  Random random(seed, Stream::kInitialise, fnv1a(drawn_name(value)));
  const auto fill = [&](const auto& draw) {
    for (float& number : numbers) number = static_cast<float>(draw());
  };
  switch (initial.kind) {
    case Initial::Kind::kConstant:
      fill([&] { return initial.a; });
      break;
    case Initial::Kind::kUniform:
      fill([&] { return initial.a + (initial.b - initial.a) * random.uniform(); });
      break;
    case Initial::Kind::kNormal:
      fill([&] { return initial.a + initial.b * random.normal(); });
      break;
    case Initial::Kind::kTruncatedNormal:
      fill([&] { return initial.a + initial.b * truncated(random); });
      break;
  }
  return numbers;
}

}  // namespace trainer::model
