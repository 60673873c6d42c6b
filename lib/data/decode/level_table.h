// How the values of 16-bit files become bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace trainer::data {

// Returns the byte of each 16-bit value by its index.
using LevelTable = std::array<std::uint8_t, 1 << 16>;

// Returns the table that takes `low` to 0, `high` to 255 and the values between to the nearest byte
// in proportion, halves upwards. Values outside are cut. `low` must be less than `high`.
inline LevelTable make_level_table(std::int64_t low, std::int64_t high) {
  LevelTable table{};
  const std::int64_t width = high - low;
  for (std::int64_t value = 0; value < std::ssize(table); ++value) {
    const std::int64_t above = std::clamp(value, low, high) - low;
    table[value] = static_cast<std::uint8_t>((above * 510 + width) / (2 * width));
  }
  return table;
}

}  // namespace trainer::data
