// Writes fields of CSV files (RFC 4180).
#pragma once

#include <string>

namespace trainer {

// Returns a text from outside as a field: quoted if it holds a comma or a quote. Control characters
// and line ends are escaped as printable() does, so that a row is always one line.
std::string csv_cell(const std::string& text);

// Returns a number with nine significant digits, which identify a float.
std::string csv_number(double value);

}  // namespace trainer
