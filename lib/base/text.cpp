#include "base/text.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace trainer {
namespace {

// Returns the number of bytes of the character at the start of `text`, or 0 if it is not UTF-8
// (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0u;
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const std::uint32_t second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_large = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || after != end) return std::nullopt;
  return value;
}

}  // namespace

bool is_line_of_text(std::string_view text) { return printable(text) == text; }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      result += c;
    } else {
      result += "\\x" + to_hex(byte, 2);
    }
  }
  return result;
}

std::string printable(std::string_view text, Controls kept) {
  std::string result;
  while (!text.empty()) {
    const auto byte = static_cast<std::uint8_t>(text[0]);
    const std::size_t length = utf8_length(text);
    // U+0080 to U+009F are controls, too.
    const bool is_control =
        byte < 0x20 || byte == 0x7F ||
        (byte == 0xC2 && length == 2 && static_cast<std::uint8_t>(text[1]) < 0xA0);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    const bool keep = length > 0 && (!is_control || (byte == '\n' && kept == Controls::kLines));
    result += keep ? std::string(character) : escaped(character);
    text.remove_prefix(character.size());
  }
  return result;
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += separator;
    text += words[i];
  }
  return text;
}

std::string join_first(std::vector<std::string> words, std::size_t max_words) {
  const std::size_t count = words.size();
  words.resize(std::min(count, max_words));
  return join(words) +
         (count > max_words ? " and " + std::to_string(count - max_words) + " more" : "");
}

std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (letter == separator) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

std::string plural(std::string_view noun) {
  if (noun.ends_with('s')) return std::string(noun);
  if (noun.ends_with('y')) return concat(noun.substr(0, noun.size() - 1), "ies");
  return concat(noun, noun.ends_with("ch") ? "es" : "s");
}

std::string counted(std::int64_t count, std::string_view noun) {
  return concat(count, ' ', count == 1 ? std::string(noun) : plural(noun));
}

std::string to_lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string to_hex(std::uint64_t number, std::size_t min_digits) {
  char digits[16];
  const std::string text(digits, std::to_chars(digits, digits + sizeof digits, number, 16).ptr);
  return std::string(min_digits - std::min(min_digits, text.size()), '0') + text;
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += to_hex(byte, 2);
  return text;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines = split_text(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}

std::optional<double> parse_real(std::string_view text) { return parse_whole<double>(text); }

}  // namespace trainer
