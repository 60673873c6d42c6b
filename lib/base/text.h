// Checks, joins and splits lines of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

// Returns whether the text is UTF-8 without control characters, so that JSON, CSV and tables keep
// it unchanged.
bool is_line_of_text(std::string_view text);

// Replaces every byte that is not printable ASCII by \xNN, for messages.
std::string escaped(std::string_view text);

// Replaces control characters, and bytes that are not UTF-8, by \xNN, so that the name of a file
// cannot control a terminal. `kLines` keeps line ends.
enum class Controls { kNone, kLines };
std::string printable(std::string_view text, Controls kept = Controls::kNone);

// Returns "a, b, c", or "" for no words.
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

// Returns the first `max_words` words and how many follow: "a, b and 3 more".
std::string join_first(std::vector<std::string> words, std::size_t max_words);

// Returns the parts between separators: n separators give n + 1 parts, and an empty text gives one
// empty part.
std::vector<std::string> split_text(std::string_view text, char separator);

// Returns the plural of a noun: "files", "batches", "entries"; one that ends with s stays as it is.
std::string plural(std::string_view noun);
// Returns a number with its noun: "1 file", "2 files".
std::string counted(std::int64_t count, std::string_view noun);

// Replaces the letters A to Z by a to z and keeps all other bytes.
std::string to_lower(std::string text);

// Returns a number in hexadecimal, with leading zeros up to `min_digits`: "1f".
std::string to_hex(std::uint64_t number, std::size_t min_digits = 1);
// Returns two hexadecimal digits per byte.
std::string to_hex(std::span<const std::uint8_t> bytes);

// Returns the lines of a text without their line ends.
std::vector<std::string> split_lines(const std::string& text);

// Parses the whole text as a number in C's notation; nullopt for any other text.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);

}  // namespace trainer
