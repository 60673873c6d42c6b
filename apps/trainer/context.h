// What the commands use of this process.
#pragma once

#include <iosfwd>

#include "commands/context/context.h"

namespace trainer::app {

// Returns the environment, the standard streams and the terminal of this process.
commands::Context context();

// "trainer 0.1.0 (commit ...)".
const char* version();
// A table of the shared libraries of this process and of what is compiled in, with versions.
void print_libraries(std::ostream& out);

}  // namespace trainer::app
