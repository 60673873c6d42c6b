// Rules in words, for messages and the reference.
#pragma once

#include <string>

#include "config/rule.h"

namespace trainer::config {

// "at least 0 and less than 1"; "" without limits.
std::string range_text(const Rule& rule);

}  // namespace trainer::config
