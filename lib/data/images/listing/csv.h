// Lists of image files and their classes as comma-separated values.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace trainer::data {

struct CsvRow {
  std::string path, label;
  int line = 0;
  bool has_weight = false;
  float weight = 1;
};

// The rows of a file: RFC 4180, with another separator where the first line has one. The columns
// are those that `csv` names, those whose names are usual, or without names the only two; one of
// weights may be missing. Paths
// have csv.ending and count from csv.root or the file's folder. Throws DataError.
std::vector<CsvRow> read_csv(const std::string& path, const config::Csv& csv);

[[noreturn]] void fail_at(const std::string& path, int line, const std::string& message);

}  // namespace trainer::data
