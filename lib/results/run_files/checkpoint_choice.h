// The checkpoint of a run.
#pragma once

#include <string>

#include "base/spelling.h"

namespace trainer::results {

// The checkpoint of a run folder to open.
enum class CheckpointChoice {
  kDefault,  // the best one if the run has kept one, otherwise the last one
  kBest,
  kLast
};
constexpr auto spellings(CheckpointChoice) {
  using enum CheckpointChoice;
  return std::to_array<Spelling<CheckpointChoice>>(
      {{kDefault, ""}, {kBest, "best"}, {kLast, "last"}});
}
inline std::string to_string(CheckpointChoice choice) { return std::string(spell(choice)); }

}  // namespace trainer::results
