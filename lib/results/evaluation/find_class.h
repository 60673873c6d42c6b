// Classes that users name in options, and names of classes in outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::results {

// Returns the index of the class of this name. Throws ConfigError, with a suggestion, if the model
// has no such class. `option` is the option that names it, for the message.
std::int64_t find_class(const std::vector<std::string>& classes, const std::string& name,
                        const std::string& option);

// Returns the index of the class that --positive-class names, or of the second of two classes for
// "". Throws ConfigError for another name, and for "" with more than two classes.
std::int64_t find_positive_class(const std::vector<std::string>& classes, const std::string& name);

// Throws the ConfigError of an option that needs a model of one class per image.
[[noreturn]] void reject_without_classes(const std::string& option, const std::string& reason);

// Returns the name of a class, or its index as text if it has no name.
std::string class_name(const std::vector<std::string>& classes, std::size_t index);

}  // namespace trainer::results
