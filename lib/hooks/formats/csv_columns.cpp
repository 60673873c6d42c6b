#include "hooks/formats/csv_columns.h"

#include <algorithm>
#include <fstream>

#include "base/formats/csv.h"
#include "base/text.h"

namespace trainer::hooks {

CsvColumns::CsvColumns(const Path& path, Names wanted,
                       const std::function<bool(const std::string&)>& known)
    : wanted_(std::move(wanted)) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  Names found = split_csv_row(line);
  if (std::ranges::all_of(found, known)) found_ = std::move(found);
}

void CsvColumns::add(const Names& more) {
  for (const std::string& name : more) {
    if (std::ranges::find(wanted_, name) == wanted_.end()) wanted_.push_back(name);
  }
}

std::string CsvColumns::header() const { return join(wanted_, ","); }

bool CsvColumns::is_header(const std::string& line) const {
  return !found_.empty() && line == join(found_, ",");
}

std::optional<std::map<std::string, std::string>> CsvColumns::fields(
    const std::string& line) const {
  const Names values = split_csv_row(line);
  if (found_.empty() || values.size() != found_.size()) return std::nullopt;
  std::map<std::string, std::string> fields;
  for (std::size_t i = 0; i < values.size(); ++i) fields[found_[i]] = values[i];
  return fields;
}

std::string CsvColumns::format_row(const std::map<std::string, std::string>& fields) const {
  Names values;
  for (const std::string& name : wanted_) {
    const auto found = fields.find(name);
    values.push_back(found == fields.end() ? "" : found->second);
  }
  return join(values, ",");
}

}  // namespace trainer::hooks
