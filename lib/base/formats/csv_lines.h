// The lines and fields of a file of comma-separated values.
#pragma once

#include <string>
#include <vector>

namespace trainer {

struct CsvLine {
  int line = 1;  // its number in the file; of several lines, that of the first
  std::vector<std::string> cells;
};

// Reads a file in UTF-8 or UTF-16 whose lines end in \n, \r\n or \r. `separator` is one character,
// "tab", or empty: then it is found in the first line. Blanks around fields without quotes, and
// empty lines, are left out. Throws DataError.
std::vector<CsvLine> read_csv_lines(const std::string& path, const std::string& separator);

}  // namespace trainer
