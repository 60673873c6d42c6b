#include "base/numbers/half.h"

namespace trainer {
namespace {

// Returns bits / 2^shift, rounded to the nearest integer, and to even on a tie.
std::uint32_t shift_and_round(std::uint32_t bits, int shift) {
  const std::uint32_t half = 1u << (shift - 1);
  return (bits + half - 1 + (bits >> shift & 1u)) >> shift;
}

}  // namespace

// float has 8 bits of exponent with a bias of 127 and 23 bits of fraction. float16 has 5 bits of
// exponent with a bias of 15 and 10 bits of fraction.
std::uint16_t float_to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  const auto signed_bits = [sign](std::uint32_t result) {
    return static_cast<std::uint16_t>(sign | result);
  };
  if (magnitude > 0x7f800000u) return signed_bits(0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x47800000u) return signed_bits(0x7c00u);  // 2^16 or more
  const int exponent = static_cast<int>(magnitude >> 23);
  if (exponent >= 127 - 14) return signed_bits(shift_and_round(magnitude - 0x38000000u, 13));
  if (exponent < 127 - 25) return signed_bits(0);
  // A denormal number of float16: a multiple of 2^-24.
  return signed_bits(shift_and_round(0x800000u | (magnitude & 0x7fffffu), 126 - exponent));
}

float float16_to_float(std::uint16_t value) {
  const std::uint32_t sign = (value & 0x8000u) << 16, exponent = value >> 10 & 31u;
  const std::uint32_t fraction = value & 0x3ffu;
  std::uint32_t magnitude = 0;
  if (exponent == 31) {
    magnitude = 0x7f800000u | fraction << 13;
  } else if (exponent > 0) {
    magnitude = (exponent + (127 - 15)) << 23 | fraction << 13;
  } else if (fraction > 0) {
    const int top = 31 - std::countl_zero(fraction);  // the number is fraction * 2^-24
    magnitude = static_cast<std::uint32_t>(top - 24 + 127) << 23;
    magnitude |= (fraction << (23 - top)) & 0x7fffffu;
  }
  return std::bit_cast<float>(sign | magnitude);
}

}  // namespace trainer
