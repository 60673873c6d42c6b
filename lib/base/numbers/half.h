// Converts the 16-bit floating-point types, as bit patterns, to and from float. float holds every
// value of both exactly, so that a conversion from one to the other goes through float. The
// functions use integer arithmetic, so that results do not depend on the processor's rounding mode
// or on how it treats denormal numbers.
#pragma once

#include <bit>
#include <cstdint>

namespace trainer {

// Rounds to the nearest value, and to even on a tie. A number that is too large becomes infinite. A
// NaN stays a quiet NaN with its sign and the upper bits of its payload.
inline std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  if (nan) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline float bfloat16_to_float(std::uint16_t value) {
  return std::bit_cast<float>(std::uint32_t{value} << 16);
}

std::uint16_t float_to_float16(float value);  // rounds like float_to_bfloat16()
float float16_to_float(std::uint16_t value);

}  // namespace trainer
