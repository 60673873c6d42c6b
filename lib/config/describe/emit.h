// Converts values of a config to nodes and to YAML with comments.
#pragma once

#include <string>

#include "config/field.h"

namespace trainer::config {

Node emit(Value& value);
// Returns every field, each below a comment that describes it, as YAML that reads back to the same
// config.
std::string commented_yaml(const Config& config);

}  // namespace trainer::config
