// The JSON event of `trainer validate`.
#pragma once

#include <ostream>
#include <string>

#include "base/error.h"

namespace trainer::commands {

// Prints {"event":"validated","config":...,"ok":...,"errors":[{"file":...,"line":...,"column":...,
// "message":...}]}. `error` is null if the config is valid. An error without a place in a file
// has only a message.
void print_validated_json(const std::string& config, const Error* error, std::ostream& out);

}  // namespace trainer::commands
