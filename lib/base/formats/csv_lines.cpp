#include "base/formats/csv_lines.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/files/files.h"

namespace trainer {
namespace {

void append_utf8(std::string& text, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

enum class ByteOrder { kLittle, kBig };

std::string convert_utf16(const std::string& path, std::string_view bytes, ByteOrder order) {
  const auto fail = [&](std::size_t at) {
    throw DataError(path, "is damaged: it begins as UTF-16, but the characters at byte ", at,
                    " are not; save it as UTF-8");
  };
  const auto unit = [&](std::size_t at) {
    const auto first = static_cast<std::uint8_t>(bytes[at]);
    const auto second = static_cast<std::uint8_t>(bytes[at + 1]);
    return order == ByteOrder::kLittle ? std::uint32_t{second} << 8 | first
                                       : std::uint32_t{first} << 8 | second;
  };
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 2) {
    if (bytes.size() - at < 2) fail(at);
    std::uint32_t code = unit(at);
    if (code >= 0xD800 && code < 0xE000) {  // a surrogate, of two units
      if (code >= 0xDC00 || bytes.size() - at < 4) fail(at);
      const std::uint32_t low = unit(at + 2);
      if (low < 0xDC00 || low >= 0xE000) fail(at);
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      at += 2;
    }
    append_utf8(text, code);
  }
  return text;
}

// Returns the text in UTF-8 without a byte order mark. UTF-16 without a mark is recognized by the
// zeros in its first characters.
std::string read_text(const std::string& path) {
  using namespace std::string_view_literals;
  const std::string bytes = read_text_file(path);
  const std::string_view text = bytes;
  if (text.starts_with("\xEF\xBB\xBF"sv)) return bytes.substr(3);
  if (text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0\xFE\xFF"sv)) {
    throw DataError(path, "is UTF-32, which is not read; save it as UTF-8");
  }
  if (text.starts_with("\xFF\xFE"sv)) {
    return convert_utf16(path, text.substr(2), ByteOrder::kLittle);
  }
  if (text.starts_with("\xFE\xFF"sv)) return convert_utf16(path, text.substr(2), ByteOrder::kBig);
  if (text.size() < 4) return bytes;
  const auto is_zero = [&](std::size_t at) { return text[at] == '\0'; };
  if (!is_zero(0) && is_zero(1) && !is_zero(2) && is_zero(3)) {
    return convert_utf16(path, text, ByteOrder::kLittle);
  }
  if (is_zero(0) && !is_zero(1) && is_zero(2) && !is_zero(3)) {
    return convert_utf16(path, text, ByteOrder::kBig);
  }
  return bytes;
}

// Divides a text into lines of cells.
class LineReader {
 public:
  LineReader(const std::string& path, const std::string& separator)
      : path_(path), text_(read_text(path)) {
    separator_ = separator.empty() ? find_separator() : separator == "tab" ? '\t' : separator[0];
  }

  bool done() const { return at_ >= text_.size(); }

  // A field in quotes may hold separators, line ends and doubled quotes.
  CsvLine next() {
    CsvLine result{line_, {}};
    bool more = true;
    while (more) {
      std::string cell;
      more = read_cell(cell, result.line);
      result.cells.push_back(std::move(cell));
    }
    return result;
  }

 private:
  // Returns the separator that is most frequent in the first line.
  char find_separator() const {
    constexpr std::array<char, 3> kSeparators{',', ';', '\t'};
    const std::string first = text_.substr(0, text_.find_first_of("\r\n"));
    const auto count = [&](char c) { return std::ranges::count(first, c); };
    return *std::ranges::max_element(kSeparators,
                                     [&](char a, char b) { return count(a) < count(b); });
  }

  bool is_blank(char c) const { return (c == ' ' || c == '\t') && c != separator_; }

  // Returns whether another cell follows in the line.
  bool read_cell(std::string& cell, int start) {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    std::size_t kept = 0;  // bytes in quotes, whose blanks are kept
    if (at_ < text_.size() && text_[at_] == '"') {
      ++at_;
      read_quoted(cell, start);
      kept = cell.size();
    }
    bool more = false;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == separator_) {
        more = true;
        break;
      }
      if (c == '\n' || c == '\r') {
        end_line(c);
        break;
      }
      cell += c;
    }
    while (cell.size() > kept && is_blank(cell.back())) cell.pop_back();
    return more;
  }

  // Counts a line end whose first character was read; \r\n is one.
  void end_line(char c) {
    if (c == '\r' && at_ < text_.size() && text_[at_] == '\n') ++at_;
    ++line_;
  }

  void read_quoted(std::string& cell, int start) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      const bool ends_line = c == '\n' || (c == '\r' && text_.substr(at_ + 1, 1) != "\n");
      if (ends_line) ++line_;
      if (c != '"') {
        cell += c;
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        cell += text_[at_++];
      } else {
        ++at_;
        return;
      }
    }
    throw DataError(concat(path_, ":", start), "has a quote that is not closed");
  }

  std::string path_, text_;
  std::size_t at_ = 0;
  int line_ = 1;
  char separator_ = ',';
};

}  // namespace

std::vector<CsvLine> read_csv_lines(const std::string& path, const std::string& separator) {
  LineReader reader(path, separator);
  std::vector<CsvLine> lines;
  while (!reader.done()) {
    CsvLine line = reader.next();
    if (line.cells.size() > 1 || !line.cells[0].empty()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace trainer
