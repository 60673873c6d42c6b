// Structs -> tree.
#pragma once

#include "config/field.h"

namespace trainer::config {

Node emit(Value& value);
// The effective config, every key written out.
Node tree_of(const Config& config);

}  // namespace trainer::config
