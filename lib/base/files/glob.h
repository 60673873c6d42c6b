// Matches names and paths against patterns.
#pragma once

#include <string_view>

namespace trainer {

// Returns whether the pattern matches the whole text, as fnmatch() does: * stands for any text, ?
// for any one character, [1-6] for one of these characters and [!1-6] for any other.
bool matches(std::string_view pattern, std::string_view text);

// Returns whether the pattern matches the whole path: * and ? do not match a slash, and **/ stands
// for any number of whole folders, which may be 0.
bool matches_path(std::string_view pattern, std::string_view path);

}  // namespace trainer
