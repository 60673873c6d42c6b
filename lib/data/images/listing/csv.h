// Lists of image files and their classes as comma-separated values.
#pragma once

#include <string>
#include <vector>

#include "config/sections/data.h"

namespace trainer::data {

struct CsvRow {
  std::string path, label;
  int line = 0;
  bool has_weight = false;
  float weight = 1;
  std::string group = {};  // "" without a column of groups
};

struct CsvList {
  std::vector<CsvRow> rows;
  // The names of one-hot columns in the order of the columns; empty if a column holds the labels.
  std::vector<std::string> classes;
  bool has_groups = false;  // there is a column of groups
};

// Reads a file as RFC 4180 describes it, in UTF-8 or UTF-16, with any line ends, and with another
// separator if the first line has one. Blanks around fields without quotes are left out. The
// columns are those that `csv` names, those with usual names, or, without names, the only two. If
// there is no column of labels, columns of 0 and 1 with one 1 per row give them. Paths have
// csv.ending and count from csv.root or the folder of the file; backslashes may separate their
// folders. If the header has the column `group_by`, it holds the groups of images; if it does not,
// and this text has no character of a regular expression, this is an error. Throws DataError.
CsvList read_csv(const std::string& path, const config::Csv& csv, const std::string& group_by = "");

[[noreturn]] void fail_at(const std::string& path, int line, const std::string& message);

}  // namespace trainer::data
