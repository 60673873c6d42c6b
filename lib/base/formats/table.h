// Tables of text, printed in aligned columns.
#pragma once

#include <concepts>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainer {

// The index of the first of the last columns of a table, which are aligned to the right.
enum class NumbersFrom : std::size_t {};

// Columns are as wide as their widest cell. The name of a column includes its unit: "energy, J".
// The columns whose indices are in `right` are aligned to the right. Pages show the caption.
class Table {
 public:
  explicit Table(std::vector<std::string> header, const std::vector<std::size_t>& right = {},
                 std::string caption = "");
  // A template accepts no braces, so that {} and {1} are lists of indices.
  Table(std::vector<std::string> header, std::same_as<NumbersFrom> auto numbers,
        std::string caption = "")
      : Table(std::move(header), {}, std::move(caption)) {
    align_right_from(static_cast<std::size_t>(numbers));
  }
  void add(std::vector<std::string> row);
  // Removes columns from the right until the widest line has at most `width` characters, if that is
  // given, but keeps the first `min_columns`. Returns how many it has removed.
  std::size_t fit_columns(std::optional<int> width, std::size_t min_columns);

  const std::string& caption() const { return caption_; }
  const std::vector<std::string>& header() const { return rows_.front(); }
  std::span<const std::vector<std::string>> rows() const { return std::span(rows_).subspan(1); }
  bool is_right(std::size_t column) const { return right_[column]; }

  // Returns the number of characters of the widest line.
  std::size_t width() const;
  // If the lines would be wider than `columns`, cells of the widest column that is aligned to the
  // left are broken at blanks, and go on in lines of their own.
  void print(std::ostream& out, const std::string& indent = "",
             std::optional<int> columns = {}) const;

 private:
  void align_right_from(std::size_t column);
  std::vector<std::size_t> column_widths() const;
  void print_row(std::ostream& out, const std::string& indent, const std::vector<std::string>& row,
                 const std::vector<std::size_t>& widths) const;

  std::vector<std::vector<std::string>> rows_;  // the header first
  std::vector<bool> right_;
  std::string caption_;
};

std::string fixed(double value, int decimals);  // "0.981"
// Returns "-" for nothing and for a value that is not finite.
std::string fixed_or_dash(std::optional<double> value, int decimals);
// Formats with at most `digits` digits; 17 digits read back exactly: "0.001", "1e-05".
std::string significant(double value, int digits);
std::string percent(double share);        // "98.12 %"
std::string grouped(std::int64_t count);  // "1,234,567"

}  // namespace trainer
