// What a config says otherwise than the one that a checkpoint was made with.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace trainer::train {

struct Changes {
  // Of what the model computes, how its input is prepared, or whose slots the optimizer keeps: a
  // checkpoint does not go on with these.
  std::vector<std::string> refused;
  // Everything else that can change the result. Each is "KEY was A, is B".
  std::vector<std::string> told;
};

// Keys that only say where things lie, what computes them or what is reported are left out.
Changes changes_between(const config::Config& was, const config::Config& now);

}  // namespace trainer::train
