// Names the splits of a data set.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace trainer {

enum class Split { kTrain, kValidation, kTest };
inline constexpr std::array<Split, 3> kSplits{Split::kTrain, Split::kValidation, Split::kTest};

// Returns "train", "validation" or "test", the name in keys, options, files and messages.
const char* to_string(Split split);
// Returns the split of that name, or nothing for another text.
std::optional<Split> parse_split(std::string_view name);

}  // namespace trainer
