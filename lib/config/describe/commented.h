// The effective config as YAML that explains itself.
#pragma once

#include <string>

#include "config/config.h"

namespace trainer::config {

// Every field written out, each below a comment that says what it means; reads back to the same
// config.
std::string commented_yaml(const Config& config);

}  // namespace trainer::config
