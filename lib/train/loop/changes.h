// Differences between a config and the one that a checkpoint was made with, as messages.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace trainer::train {

struct Changes {
  std::vector<std::string> errors;    // a run with these cannot be resumed
  std::vector<std::string> warnings;  // can change the result. Each is "KEY was A, is B"
};

// See config::resume_changes.
Changes changes_between(const config::Config& before, const config::Config& now);

}  // namespace trainer::train
