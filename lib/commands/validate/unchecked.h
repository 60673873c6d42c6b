// Lists the checks that `trainer validate` leaves to other commands.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "train/open.h"

namespace trainer::commands {

struct Unchecked {
  std::string what;     // "samples and labels"
  std::string command;  // the command of trainer that checks it
};

// Lists what may be wrong in a config that is valid. `checked` is the result of
// train::check_model() for it.
std::vector<Unchecked> list_unchecked(const config::Config& config, train::ModelCheck checked);

// Returns "not checked: samples and labels (trainer data), ...".
std::string to_text(const std::vector<Unchecked>& unchecked);

}  // namespace trainer::commands
