#include "line/help_text.h"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace trainer::app {
namespace {

// Returns the column where the rest of a line continues: that of the description behind the name
// of an option or command, or else that of the line itself. It lies in the left half, so that
// words have room.
std::size_t find_indent(std::string_view line, std::size_t columns) {
  const std::size_t begin = line.find_first_not_of(' ');
  const std::size_t gap = line.find("  ", begin);
  const std::size_t description = line.find_first_not_of(' ', gap);
  if (gap != line.npos && description < columns / 2) return description;
  return std::min(begin, columns / 2);
}

std::string wrap_line(std::string line, std::size_t columns) {
  line.erase(line.find_last_not_of(' ') + 1);
  const std::size_t indent = find_indent(line, columns);
  std::string wrapped;
  while (line.size() > columns) {
    const std::size_t begin = line.find_first_not_of(' ');
    std::size_t blank = line.rfind(' ', columns);
    // A word that is longer than a line stays whole.
    if (blank == line.npos || blank < begin) blank = line.find(' ', std::max(begin, columns));
    if (blank == line.npos) break;
    const std::string head = line.substr(0, blank);
    wrapped += head.substr(0, head.find_last_not_of(' ') + 1) + '\n';
    line = std::string(indent, ' ') + line.substr(line.find_first_not_of(' ', blank));
  }
  return wrapped + line;
}

}  // namespace

std::string wrap_help(const std::string& text, std::size_t columns) {
  std::istringstream lines(text);
  std::string wrapped, line;
  bool is_example = false;
  while (std::getline(lines, line)) {
    if (!line.starts_with(' ')) is_example = line == "Examples:";
    wrapped += (is_example ? line : wrap_line(line, columns)) + '\n';
  }
  return wrapped;
}

}  // namespace trainer::app
