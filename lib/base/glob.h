// Names and paths matched by patterns.
#pragma once

#include <string_view>

namespace trainer {

// Whether the whole text fits the pattern: * is any text, ? any one character.
bool matches(std::string_view pattern, std::string_view text);

// Whether the whole path fits the pattern: * and ? stop at a slash, and **/ is any number of whole
// folders, none included.
bool matches_path(std::string_view pattern, std::string_view path);

}  // namespace trainer
