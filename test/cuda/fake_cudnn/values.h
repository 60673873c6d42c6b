// Numbers of the types that GPU libraries store, read as double and rounded to nearest even.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/numbers/half.h"

namespace fake {

enum class Number { kFloat32, kBFloat16, kFloat16 };

inline std::int64_t size_of(Number type) { return type == Number::kFloat32 ? 4 : 2; }

// From double straight to a 16-bit type would need a rounding of its own; the error of going
// through float is a tie in 2^13 or less, as in the hardware, whose sums are float.
inline double rounded(double value, Number type) {
  const auto single = static_cast<float>(value);
  switch (type) {
    case Number::kFloat32:
      return single;
    case Number::kBFloat16:
      return trainer::bfloat16_to_float(trainer::float_to_bfloat16(single));
    case Number::kFloat16:
      return trainer::float16_to_float(trainer::float_to_float16(single));
  }
  return 0;
}

// To the 10 bits of mantissa that TF32 keeps.
inline double rounded_to_tf32(double value) {
  std::uint32_t bits = 0;
  const auto single = static_cast<float>(value);
  std::memcpy(&bits, &single, 4);
  if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
  float result = 0;
  std::memcpy(&result, &bits, 4);
  return result;
}

inline double load(const void* from, std::int64_t index, Number type) {
  if (type == Number::kFloat32) return static_cast<const float*>(from)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(from)[index];
  return type == Number::kBFloat16 ? trainer::bfloat16_to_float(bits)
                                   : trainer::float16_to_float(bits);
}

// values[i] = the number at first + i * step, for i < count.
inline void load_row(const void* from, std::int64_t first, std::int64_t step, std::int64_t count,
                     Number type, double* values) {
  if (type == Number::kFloat32) {
    const float* row = static_cast<const float*>(from) + first;
    for (std::int64_t i = 0; i < count; ++i) values[i] = row[i * step];
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) values[i] = load(from, first + i * step, type);
}

inline void store(void* to, std::int64_t index, Number type, double value) {
  const auto single = static_cast<float>(value);
  if (type == Number::kFloat32) {
    static_cast<float*>(to)[index] = single;
  } else {
    static_cast<std::uint16_t*>(to)[index] = type == Number::kBFloat16
                                                 ? trainer::float_to_bfloat16(single)
                                                 : trainer::float_to_float16(single);
  }
}

}  // namespace fake
