// The class that curves and operating points of two classes are of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::commands {

// Returns the index of the class of this name, or of the second of two classes for "". Throws
// ConfigError for another name, and for "" with more than two classes.
std::int64_t find_positive_class(const std::vector<std::string>& classes, const std::string& name);

}  // namespace trainer::commands
