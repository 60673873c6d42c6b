#include "base/split.h"

#include <stdexcept>

namespace trainer {

const char* to_string(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kValidation:
      return "validation";
    case Split::kTest:
      return "test";
  }
  throw std::logic_error("a split without a name");
}

std::optional<Split> parse_split(std::string_view name) {
  for (const Split split : kSplits) {
    if (name == to_string(split)) return split;
  }
  return std::nullopt;
}

}  // namespace trainer
