#include "base/formats/columns.h"

#include <algorithm>

namespace trainer {
namespace {

// Returns whether a byte begins a character: UTF-8's continuation bytes do not.
bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; }

}  // namespace

std::size_t count_columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string first_columns(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if (begins_character(text[end]) && columns-- == 0) break;
  }
  return std::string(text.substr(0, end));
}

}  // namespace trainer
