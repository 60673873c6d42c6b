// Quotes words for a shell.
#pragma once

#include <string>

namespace trainer {

// Returns the text as one word of a POSIX shell: unchanged, or in single quotes if it needs them.
std::string shell_word(const std::string& text);

}  // namespace trainer
