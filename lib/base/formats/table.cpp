#include "base/formats/table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <ostream>

#include "base/text.h"

namespace trainer {
namespace {

const std::string kGap = "  ";  // between two columns

// Returns the number of characters, which is that of all bytes but UTF-8's continuation bytes.
std::size_t count_columns(const std::string& text) {
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; });
}

}  // namespace

Table::Table(std::vector<std::string> header, const std::vector<std::size_t>& right)
    : right_(header.size(), false) {
  for (const std::size_t column : right) right_[column] = true;
  add(std::move(header));
}

void Table::add(std::vector<std::string> row) {
  row.resize(right_.size());
  for (std::string& cell : row) {
    if (!is_line_of_text(cell)) cell = printable(cell);
  }
  rows_.push_back(std::move(row));
}

std::vector<std::size_t> Table::column_widths() const {
  std::vector<std::size_t> widths(right_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], count_columns(row[c]));
  }
  return widths;
}

std::size_t Table::width() const {
  const std::vector<std::size_t> widths = column_widths();
  const std::size_t gaps = widths.empty() ? 0 : (widths.size() - 1) * kGap.size();
  return std::accumulate(widths.begin(), widths.end(), gaps);
}

void Table::print(std::ostream& out, const std::string& indent) const {
  const std::vector<std::size_t> widths = column_widths();
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - count_columns(row[c]), ' ');
      if (c > 0) line += kGap;
      line += (right_[c] ? space + row[c] : row[c] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    // A table without a header has empty names.
    if (!line.empty() || &row != &rows_.front()) out << indent << line << '\n';
  }
}

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string fixed_or_dash(std::optional<double> value, int decimals) {
  return value && std::isfinite(*value) ? fixed(*value, decimals) : "-";
}

std::string significant(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string percent(double share) { return fixed(share * 100, 2) + " %"; }

std::string grouped(std::int64_t count) {
  std::string text = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t i = text.size(); i > first + 3;) text.insert(i -= 3, ",");
  return text;
}

}  // namespace trainer
