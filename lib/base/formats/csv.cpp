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

std::string csv_number(double value) {
  constexpr int kDigits = 9;
  char text[32];
  const auto [end, error] =
      std::to_chars(text, text + sizeof text, value, std::chars_format::general, kDigits);
  return {text, end};
}

}  // namespace trainer
