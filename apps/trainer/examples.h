// Examples at the end of every command's --help.
#pragma once

#include "command_line.h"

namespace trainer::app {

// Adds the examples to the program and to all of its commands, which must exist already.
void add_examples(CommandLine& line);

}  // namespace trainer::app
