#include "base/files/glob.h"

#include <vector>

namespace trainer {
namespace {

enum class Kind { kName, kPath };

// ends[i] is true if the part of the pattern read so far matches the first i characters. Each
// character of the pattern takes one pass over the text, so that no pattern takes exponential time.
bool fits(std::string_view pattern, std::string_view text, Kind kind) {
  std::vector<bool> ends(text.size() + 1);
  ends[0] = true;
  const auto passes = [&](char c) { return kind == Kind::kName || c != '/'; };
  while (!pattern.empty()) {
    if (kind == Kind::kPath && pattern.starts_with("**/")) {
      bool reached = false;
      for (std::size_t i = 0; i <= text.size(); ++i) {
        const bool here = ends[i];
        ends[i] = here || (reached && text[i - 1] == '/');
        reached = reached || here;
      }
      pattern.remove_prefix(3);
      continue;
    }
    const char c = pattern.front();
    pattern.remove_prefix(1);
    if (c == '*') {
      for (std::size_t i = 0; i < text.size(); ++i) {
        if (ends[i] && passes(text[i])) ends[i + 1] = true;
      }
      continue;
    }
    for (std::size_t i = text.size(); i > 0; --i) {
      ends[i] = ends[i - 1] && (c == '?' ? passes(text[i - 1]) : c == text[i - 1]);
    }
    ends[0] = false;
  }
  return ends.back();
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  return fits(pattern, text, Kind::kName);
}

bool matches_path(std::string_view pattern, std::string_view path) {
  return fits(pattern, path, Kind::kPath);
}

}  // namespace trainer
