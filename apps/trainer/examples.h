// Examples at the end of every command's --help.
#pragma once

#include "command_line.h"

namespace trainer::app {

// Adds them to the program and to all of its commands, which must be there already.
void add_examples(CommandLine& line);

}  // namespace trainer::app
