// Describes rules for messages and the reference.
#pragma once

#include <string>

#include "config/rule.h"

namespace trainer::config {

// Returns "at least 0 and less than 1", for example, or "" for a rule without limits.
std::string range_text(const Rule& rule);

}  // namespace trainer::config
