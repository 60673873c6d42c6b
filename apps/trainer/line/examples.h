// Examples at the end of every command's --help.
#pragma once

#include <iosfwd>

#include "line/command_line.h"

namespace trainer::app {

// Prints how to begin: for `trainer` without a command and `trainer help`.
void print_first_steps(std::ostream& out);

// Adds the examples to the program and to all of its commands, which must exist already.
void add_examples(CommandLine& line);

}  // namespace trainer::app
