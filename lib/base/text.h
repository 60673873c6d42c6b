// Lines of text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

// Whether the text is UTF-8 without control characters, so that it survives JSON, CSV and tables.
bool is_line_of_text(std::string_view text);

// The same with every byte that is not printable ASCII as \xNN, for messages.
std::string escaped(std::string_view text);

// The text with its control characters, and bytes that are not UTF-8, as \xNN, so that a file's
// name cannot steer a terminal. `kLines` keeps the ends of lines.
enum class Controls { kNone, kLines };
std::string printable(std::string_view text, Controls kept = Controls::kNone);

// "a, b, c"; nothing for no words.
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

// The parts between separators, of which n give n + 1; one empty part for no text.
std::vector<std::string> split_text(std::string_view text, char separator);

// The whole text as a number in C's notation; nothing for another text.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);

}  // namespace trainer
