// Hints for mistyped words of the command line, which CLI11 does not give.
#pragma once

#include <string>
#include <vector>

#include "line/command_line.h"

namespace trainer::app {

// Checks the words behind the program's name. Throws ConfigError with what to write instead for an
// unknown command, an unknown option of a command, and a second KEY=VALUE behind one --set.
void check_words(const std::vector<CommandDescription>& commands,
                 const std::vector<std::string>& words);

}  // namespace trainer::app
