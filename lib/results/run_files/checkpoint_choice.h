// The checkpoint of a run.
#pragma once

namespace trainer::results {

// The checkpoint of a run folder to open.
enum class CheckpointChoice {
  kDefault,  // the best one if the run has kept one, otherwise the last one
  kBest,
  kLast
};
const char* to_string(CheckpointChoice choice);  // "best", "last", or "" for kDefault

}  // namespace trainer::results
