// The columns of a CSV file that a resumed run continues. Another version of the program, or a run
// with other devices, may have written other columns: rows are moved under the columns wanted now.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"

namespace trainer::hooks {

class CsvColumns {
 public:
  using Names = std::vector<std::string>;

  // Reads the header of the file at `path`. A file without one, or with a column that is not
  // `known`, has no columns.
  CsvColumns(const Path& path, Names wanted, const std::function<bool(const std::string&)>& known);

  const Names& found() const { return found_; }
  const Names& wanted() const { return wanted_; }
  // Adds columns to wanted(), except for those that it has.
  void add(const Names& more);

  std::string header() const;  // the wanted columns
  bool is_header(const std::string& line) const;
  // Returns the fields of a row by the columns found; nothing for a line with more or fewer fields.
  std::optional<std::map<std::string, std::string>> fields(const std::string& line) const;
  // Returns a row of the columns wanted, with empty fields where `fields` has none.
  std::string format_row(const std::map<std::string, std::string>& fields) const;

 private:
  Names wanted_, found_;
};

}  // namespace trainer::hooks
