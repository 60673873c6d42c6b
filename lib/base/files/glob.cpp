#include "base/files/glob.h"

#include <bitset>
#include <optional>
#include <vector>

namespace trainer {
namespace {

enum class Kind { kName, kPath };

using Characters = std::bitset<256>;

// Removes a class such as [1-6] or [!a-c] from the start of the pattern and returns its characters.
// A bracket without an end is an ordinary character, as in fnmatch().
std::optional<Characters> take_class(std::string_view& pattern) {
  if (!pattern.starts_with('[')) return {};
  const bool negated = pattern.size() > 1 && (pattern[1] == '!' || pattern[1] == '^');
  std::size_t at = negated ? 2 : 1;
  const std::size_t end = pattern.find(']', at + 1);  // a first ] is a member of the class
  if (end == std::string_view::npos) return {};
  Characters members;
  for (; at < end; ++at) {
    const auto first = static_cast<unsigned char>(pattern[at]);
    auto last = first;
    if (at + 2 < end && pattern[at + 1] == '-') {
      at += 2;
      last = static_cast<unsigned char>(pattern[at]);
    }
    for (unsigned c = first; c <= last; ++c) members.set(c);
  }
  pattern.remove_prefix(end + 1);
  return negated ? ~members : members;
}

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
    // Moves past one character of the text that `accepts` accepts.
    const auto advance = [&](const auto& accepts) {
      for (std::size_t i = text.size(); i > 0; --i) ends[i] = ends[i - 1] && accepts(text[i - 1]);
      ends[0] = false;
    };
    if (kind == Kind::kName) {
      if (const std::optional<Characters> members = take_class(pattern)) {
        advance([&](char c) { return members->test(static_cast<unsigned char>(c)); });
        continue;
      }
    }
    const char c = pattern.front();
    pattern.remove_prefix(1);
    if (c == '*') {
      for (std::size_t i = 0; i < text.size(); ++i) {
        if (ends[i] && passes(text[i])) ends[i + 1] = true;
      }
      continue;
    }
    if (c == '?') {
      advance(passes);
    } else {
      advance([c](char other) { return c == other; });
    }
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
