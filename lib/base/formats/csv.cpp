#include "base/formats/csv.h"

#include <charconv>

#include "base/error.h"
#include "base/text.h"

namespace trainer {

std::string csv_cell(const std::string& text) {
  const std::string cell = printable(text);
  if (cell.find_first_of(",\"") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char letter : cell) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + '"';
}

std::vector<std::string> split_csv_row(std::string_view row) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t at = 0; at < row.size(); ++at) {
    const bool is_quote = row[at] == '"';
    if (is_quote && quoted && at + 1 < row.size() && row[at + 1] == '"') {
      cells.back() += row[at++];
    } else if (is_quote) {
      quoted = !quoted;
    } else if (row[at] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += row[at];
    }
  }
  return cells;
}

std::string csv_number(double value) {
  constexpr int kDigits = 9;
  char text[32];
  const auto [end, error] =
      std::to_chars(text, text + sizeof text, value, std::chars_format::general, kDigits);
  return {text, end};
}

}  // namespace trainer
