// Reads JSON that another program may have changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace trainer {

// The largest depth of JSON that is read. Copying and printing JSON recurse on its depth.
constexpr int kMaxJsonDepth = 64;

// Returns whether the brackets of the text are nested at most kMaxJsonDepth deep.
bool is_shallow_json(std::string_view text);

// Returns the number, or nothing if it is not an integer or its size exceeds 2^53, beyond which
// sums are not exact. Checks the type first, because the cast of a large floating-point number to
// an integer is undefined.
template <class Json>
std::optional<std::int64_t> whole_number(const Json& value) {
  constexpr std::int64_t kMax = std::int64_t{1} << 53;
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.template get<std::uint64_t>() > std::uint64_t{kMax}) {
    return std::nullopt;
  }
  const auto number = value.template get<std::int64_t>();
  return number >= -kMax && number <= kMax ? std::optional(number) : std::nullopt;
}

}  // namespace trainer
