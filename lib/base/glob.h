// Names matched by patterns.
#pragma once

#include <string_view>

namespace trainer {

// Whether the whole text fits the pattern: * is any text, ? any one character.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace trainer
