// The JSON event of `trainer validate`.
#pragma once

#include <ostream>
#include <string>

#include "base/error.h"

namespace trainer::commands {

// Prints {"event":"validated","config":...,"ok":...,"errors":[{"file":...,"line":...,"column":...,
// "message":...}]}. `error` is null when the config is right. An error without a place in a file
// has a message alone.
void print_validated_json(const std::string& config, const Error* error, std::ostream& out);

}  // namespace trainer::commands
