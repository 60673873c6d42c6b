#include "results/run_files/checkpoint_choice.h"

#include <stdexcept>

namespace trainer::results {

const char* to_string(CheckpointChoice choice) {
  switch (choice) {
    case CheckpointChoice::kDefault:
      return "";
    case CheckpointChoice::kBest:
      return "best";
    case CheckpointChoice::kLast:
      return "last";
  }
  return "";
}

}  // namespace trainer::results
