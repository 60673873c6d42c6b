// Converts values of a config to nodes.
#pragma once

#include "config/field.h"

namespace trainer::config {

Node emit(Value& value);
// Returns the effective config with every key.
Node emit_config(const Config& config);

}  // namespace trainer::config
