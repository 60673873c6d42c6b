// Lists the differences between a config and the one of a checkpoint as messages.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace trainer::train {

struct Changes {
  std::vector<std::string> errors;    // a run with these cannot be resumed
  std::vector<std::string> warnings;  // these can change the result; each is "KEY was A, is B"
};

// See config::resume_changes.
Changes changes_between(const config::Config& before, const config::Config& now);

}  // namespace trainer::train
