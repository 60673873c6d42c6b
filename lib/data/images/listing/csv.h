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
  // If the list may give an image several labels: the labels of a separated cell, or a number for
  // each of CsvList::classes, 0, 1 or NaN (unknown).
  std::vector<std::string> labels = {};
  std::vector<float> targets = {};
};

struct CsvList {
  std::vector<CsvRow> rows;
  // The names of columns of 0 and 1 in their order, or in that of `label_columns`; empty if a
  // column holds the labels.
  std::vector<std::string> classes;
  // With several labels, the names of columns of 0 without a 1, which are not among `classes`.
  std::vector<std::string> zeros;
  bool has_groups = false;  // true: there is a column of groups
  // The place of the header and why it gives no groups, if there is no column of this name and the
  // name has no character of a regular expression; otherwise "".
  std::string missing_groups;
  // True if an image may have several labels; CsvRow::label is empty then.
  bool has_several_labels = false;
};

// Reads a file as RFC 4180 describes it, in UTF-8 or UTF-16, with any line ends, and with another
// separator if the first line has one. Blanks around fields without quotes are left out. The
// columns are those that data.csv names, those with usual names, or, without names, the only two.
// If there is no column of labels, columns of 0 and 1 give them: with data.columns_are_labels any
// number of them may be 1, and cells may be empty or "nan" (unknown); otherwise one is 1 per row.
// With `label_columns`, which then are the columns of 0 and 1, columns of other names are not used.
// With data.csv.label_separator, the column of labels has any number of them per cell. Paths have
// csv.ending and count from csv.root or the folder of the file; backslashes may separate their
// folders. If the header has the column data.group_by, it holds the groups of images. Throws
// DataError.
CsvList read_csv(const std::string& path, const config::Data& data,
                 const std::vector<std::string>& label_columns);

// Returns the images that a list names in the column csv.image_column, in one with a usual name,
// or, without such a header, in the first column of images. Paths have csv.ending and count from
// the folder of the list. Throws DataError.
std::vector<std::string> read_image_names(const std::string& path, const config::Csv& csv);

[[noreturn]] void fail_at(const std::string& path, int line, const std::string& message);

}  // namespace trainer::data
