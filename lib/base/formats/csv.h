// Writes fields of CSV files (RFC 4180), and reads rows of such fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer {

// Returns a text from outside as a field: quoted if it holds a comma or a quote. Control characters
// and line ends are escaped as printable() does, so that a row is always one line.
std::string csv_cell(const std::string& text);

// Returns the fields of a row that consists of csv_cell() with commas between, without the line
// end.
std::vector<std::string> split_csv_row(std::string_view row);

// Returns a number with nine significant digits, which identify a float.
std::string csv_number(double value);

}  // namespace trainer
