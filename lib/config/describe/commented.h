// Prints the effective config as YAML with comments.
#pragma once

#include <string>

#include "config/config.h"

namespace trainer::config {

// Returns every field, each below a comment that describes it, as YAML that reads back to the same
// config.
std::string commented_yaml(const Config& config);

}  // namespace trainer::config
