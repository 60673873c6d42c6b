// The JSON event of `trainer validate`.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "commands/validate/unchecked.h"

namespace trainer::commands {

// Prints {"event":"validated","config":...,"ok":true,"errors":[],"not_checked":[{"what":...,
// "command":...}]} of a valid config.
void print_validated_json(const std::string& config, const std::vector<Unchecked>& unchecked,
                          std::ostream& out);
// Prints {"event":"validated","config":...,"ok":false,"errors":[{"file":...,"line":...,
// "column":...,"message":...}]}. An error without a place in a file has only a message.
void print_validated_json(const std::string& config, const Error& error, std::ostream& out);

}  // namespace trainer::commands
