// Classes that users name in options.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::commands {

// Returns the index of the class of this name. Throws ConfigError, with a suggestion, if the model
// has no such class. `option` is the option that names it, for the message.
std::int64_t find_class(const std::vector<std::string>& classes, const std::string& name,
                        const std::string& option);

}  // namespace trainer::commands
