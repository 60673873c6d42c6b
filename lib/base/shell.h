// Words of a shell.
#pragma once

#include <string>

namespace trainer {

// The text as one word of a POSIX shell: as it is, or in single quotes if it needs them.
std::string shell_word(const std::string& text);

}  // namespace trainer
