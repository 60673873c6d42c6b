// Names the splits of a data set.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/spelling.h"

namespace trainer {

enum class Split { kTrain, kValidation, kTest };
inline constexpr std::array<Split, 3> kSplits{Split::kTrain, Split::kValidation, Split::kTest};

// The names in keys, options, files and messages.
constexpr auto spellings(Split) {
  using enum Split;
  return std::to_array<Spelling<Split>>(
      {{kTrain, "train"}, {kValidation, "validation"}, {kTest, "test"}});
}
inline std::string to_string(Split split) { return std::string(spell(split)); }

// Returns the split of that name, or nothing for another text.
inline std::optional<Split> parse_split(std::string_view name) { return parse_enum<Split>(name); }

}  // namespace trainer
