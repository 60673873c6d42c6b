// The help of the command line on a terminal.
#pragma once

#include <string>

namespace trainer::app {

// Breaks lines of ASCII text with more than `columns` characters at blanks. The rest of a
// description continues in the column where the description began. Words that are longer than a
// line stay whole, and so do lines of examples, so that they can be copied.
std::string wrap_help(const std::string& text, std::size_t columns);

}  // namespace trainer::app
