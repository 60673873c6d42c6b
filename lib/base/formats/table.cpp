#include "base/formats/table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>

#include "base/formats/columns.h"
#include "base/text.h"

namespace trainer {
namespace {

const std::string kGap = "  ";  // between two columns
constexpr std::size_t kMinBrokenWidth = 16;

// Breaks a text at blanks into lines of at most `width` characters; a longer word stays whole.
std::vector<std::string> break_cell(const std::string& text, std::size_t width) {
  if (count_columns(text) <= width) return {text};
  std::vector<std::string> lines;
  for (const std::string& word : split_text(text, ' ')) {
    const bool fits =
        !lines.empty() && count_columns(lines.back()) + 1 + count_columns(word) <= width;
    if (fits) {
      lines.back() += ' ' + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

}  // namespace

Table::Table(std::vector<std::string> header, const std::vector<std::size_t>& right,
             std::string caption)
    : right_(header.size(), false), caption_(std::move(caption)) {
  for (const std::size_t column : right) right_[column] = true;
  add(std::move(header));
}

void Table::align_right_from(std::size_t column) {
  for (; column < right_.size(); ++column) right_[column] = true;
}

void Table::add(std::vector<std::string> row) {
  row.resize(right_.size());
  for (std::string& cell : row) {
    if (!is_line_of_text(cell)) cell = printable(cell);
  }
  rows_.push_back(std::move(row));
}

std::size_t Table::fit_columns(std::optional<int> width, std::size_t min_columns) {
  std::size_t removed = 0;
  while (width && this->width() > static_cast<std::size_t>(*width) &&
         header().size() > min_columns) {
    right_.pop_back();
    for (std::vector<std::string>& row : rows_) row.pop_back();
    ++removed;
  }
  return removed;
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

void Table::print(std::ostream& out, const std::string& indent, std::optional<int> columns) const {
  std::vector<std::size_t> widths = column_widths();
  if (columns) {
    std::size_t& widest = *std::max_element(widths.begin(), widths.end());
    const std::size_t all = indent.size() + width(), room = static_cast<std::size_t>(*columns);
    if (all > room && !right_[&widest - widths.data()]) {
      widest -= std::min(all - room, widest - std::min(widest, kMinBrokenWidth));
    }
  }
  for (const auto& row : rows_) {
    // A table without a header has empty names.
    const bool is_header = &row == &rows_.front();
    if (is_header && std::ranges::all_of(row, &std::string::empty)) continue;
    print_row(out, indent, row, widths);
  }
}

void Table::print_row(std::ostream& out, const std::string& indent,
                      const std::vector<std::string>& row,
                      const std::vector<std::size_t>& widths) const {
  std::vector<std::vector<std::string>> cells;
  std::size_t lines = 1;
  for (std::size_t c = 0; c < row.size(); ++c) {
    cells.push_back(break_cell(row[c], widths[c]));
    lines = std::max(lines, cells.back().size());
  }
  for (std::size_t n = 0; n < lines; ++n) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string text = n < cells[c].size() ? cells[c][n] : "";
      const std::string space(widths[c] - std::min(widths[c], count_columns(text)), ' ');
      if (c > 0) line += kGap;
      line += (right_[c] ? space + text : text + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << indent << line << '\n';
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
