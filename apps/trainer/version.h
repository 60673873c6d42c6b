// The versions of the program and of its libraries.
#pragma once

#include <iosfwd>

namespace trainer::app {

// Returns "trainer 0.1.0 (commit ...)".
const char* version();
// Prints a table of the shared libraries of this process and of what is compiled in, with versions.
void print_libraries(std::ostream& out);

}  // namespace trainer::app
