#include "base/numbers/half.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace trainer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value by the definition of the format: `fraction_bits` below a biased exponent.
double compute_value(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

struct Format {
  int exponent_bits, fraction_bits;
  std::uint16_t (*round)(float);
  float (*widen)(std::uint16_t);
};

const Format kFormats[] = {{8, 7, float_to_bfloat16, bfloat16_to_float},
                           {5, 10, float_to_float16, float16_to_float}};

}  // namespace

TEST_CASE(
    "float16 and bfloat16: every 16-bit pattern has its value as float, and comes back from it") {
  for (const Format& f : kFormats) {
    CAPTURE(f.exponent_bits);
    const auto quiet = static_cast<std::uint16_t>(1u << (f.fraction_bits - 1));
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const float widened = f.widen(half);
      const double value = compute_value(bits, f.exponent_bits, f.fraction_bits);
      const bool nan = std::isnan(value);
      const bool same = nan ? std::isnan(widened) : widened == value;
      const bool signs = std::signbit(widened) == ((bits & 0x8000u) != 0);
      const bool back = f.round(widened) == (nan ? half | quiet : half);
      if (!same || !signs || !back) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE(
    "float16 and bfloat16: a float is rounded to the nearer neighbour, and to the even one on a "
    "tie") {
  for (const Format& f : kFormats) {
    CAPTURE(f.exponent_bits);
    const std::uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.fraction_bits;
    int wrong = 0;
    for (std::uint32_t bits = 0; bits + 1 < infinity; ++bits) {
      const double low = compute_value(bits, f.exponent_bits, f.fraction_bits);
      const double high = compute_value(bits + 1, f.exponent_bits, f.fraction_bits);
      const auto middle = static_cast<float>((low + high) / 2);  // exact in float
      const std::uint32_t even = bits + (bits & 1u);
      if (f.round(middle) != even || f.round(-middle) != (even | 0x8000u)) ++wrong;
      if (f.round(std::nextafter(middle, 0.0f)) != bits) ++wrong;
      if (f.round(std::nextafter(middle, kInfinity)) != bits + 1) ++wrong;
    }
    CHECK(wrong == 0);
    // Half a step beyond the largest number lies infinity.
    const double largest = compute_value(infinity - 1, f.exponent_bits, f.fraction_bits);
    const double step = largest - compute_value(infinity - 2, f.exponent_bits, f.fraction_bits);
    const auto limit = static_cast<float>(largest + step / 2);
    CHECK(f.round(limit) == infinity);
    CHECK(f.round(std::nextafter(limit, 0.0f)) == infinity - 1);
    CHECK(f.round(-kInfinity) == (infinity | 0x8000u));
    CHECK(f.round(std::numeric_limits<float>::max()) == infinity);
  }
}

TEST_CASE("float16 and bfloat16: NaN keeps its sign and the upper bits of its payload") {
  const auto nan = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  CHECK(float_to_float16(nan(0xffc00000u)) == 0xfe00u);
  CHECK(float_to_float16(nan(0x7fd56000u)) == 0x7eabu);
  CHECK(float_to_float16(nan(0x7f800001u)) == 0x7e00u);  // only low bits: must not become infinite
  CHECK(float_to_bfloat16(nan(0x7f800001u)) == 0x7fc0u);
  CHECK(float_to_bfloat16(nan(0xffd50000u)) == 0xffd5u);
}

}  // namespace trainer
