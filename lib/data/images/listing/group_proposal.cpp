#include "data/images/listing/group_proposal.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "data/images/listing/group_pattern.h"

namespace trainer::data {
namespace {

constexpr std::string_view kSeparators = "_-. ";

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// A beginning of a file name up to a number.
struct Beginning {
  std::string shape;  // with "\d+" in place of the number: a regular expression
  std::string text;   // "person123"
};

// Returns the characters of a regular expression that matches this text.
std::string quote_pattern(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (std::string_view("\\[](){}|.*+?^$").find(c) != std::string_view::npos) quoted += '\\';
    quoted += c;
  }
  return quoted;
}

// Returns the first beginnings of a name without its ending, the shortest first. A separator
// follows each beginning, and a shape has "\d+" in place of its last number only.
std::vector<Beginning> find_beginnings(const std::string& name) {
  // A list may have names of any length, and each beginning is stored.
  constexpr std::size_t kMaxBeginnings = 8, kMaxBytes = 1000;
  std::vector<Beginning> beginnings;
  std::string shape;
  for (std::size_t at = 0;
       at < std::min(name.size(), kMaxBytes) && beginnings.size() < kMaxBeginnings;) {
    if (!is_digit(name[at])) {
      shape += quote_pattern(name.substr(at++, 1));
      continue;
    }
    std::size_t end = at;
    while (end < name.size() && is_digit(name[end])) ++end;
    if (end < name.size() && kSeparators.find(name[end]) != std::string_view::npos) {
      beginnings.push_back({shape + "\\d+", name.substr(0, end)});
    }
    shape += name.substr(at, end - at);
    at = end;
  }
  return beginnings;
}

using Counts = std::map<std::string, std::int64_t>;  // files by group

// Returns whether the numbers behind a beginning name groups.
bool names_groups(const Counts& counts) {
  constexpr std::int64_t kMinGroups = 3, kMaxMean = 50;
  std::int64_t files = 0, several = 0;
  for (const auto& [group, count] : counts) {
    files += count;
    several += count > 1 ? 1 : 0;
  }
  const auto groups = std::ssize(counts);
  return groups >= kMinGroups && several >= 2 && files <= kMaxMean * groups;
}

// Leaves out first words that are the same in all names of a shape, as in NORMAL2-IM-\d+, as long
// as a letter follows.
std::string shorten_shape(const std::string& shape) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t separator = shape.find_first_of("_- ", begin);
    if (separator == std::string::npos || separator + 1 >= shape.size()) break;
    if (std::isalpha(static_cast<unsigned char>(shape[separator + 1])) == 0) break;
    begin = separator + 1;
  }
  return shape.substr(begin);
}

std::string stem_of_path(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

// Returns the files by group of a pattern.
Counts count_files(const std::string& pattern, const std::vector<std::string>& paths) {
  const GroupPattern compiled("data.group_by", pattern);
  Counts counts;
  for (const std::string& path : paths) {
    const std::string group = compiled.find(path);
    if (!group.empty()) ++counts[group];
  }
  return counts;
}

}  // namespace

GroupProposal propose_groups(const std::vector<std::string>& paths) {
  std::map<std::string, Counts> shapes;
  for (const std::string& path : paths) {
    for (const Beginning& one : find_beginnings(stem_of_path(path))) ++shapes[one.shape][one.text];
  }
  std::erase_if(shapes, [](const auto& shape) { return !names_groups(shape.second); });
  // The shortest beginning of a name is its group, because it keeps more files together.
  std::set<std::string> chosen;
  std::int64_t files = 0;
  for (const std::string& path : paths) {
    for (const Beginning& one : find_beginnings(stem_of_path(path))) {
      if (!shapes.contains(one.shape)) continue;
      chosen.insert(one.shape);
      ++files;
      break;
    }
  }
  constexpr std::size_t kMaxShapes = 6;
  if (chosen.empty() || chosen.size() > kMaxShapes) return {};
  const bool has_bare_number = std::ranges::any_of(chosen, [](const auto& shape) {
    return shape.starts_with('\\') || std::isalpha(static_cast<unsigned char>(shape[0])) == 0;
  });
  std::set<std::string> shorter;
  for (const std::string& shape : chosen) shorter.insert(shorten_shape(shape));
  const std::string plain = concat('(', join({shorter.begin(), shorter.end()}, "|"), ')');
  // The names of folders may match, too: then the pattern must begin with the name of the file.
  const std::string anchored =
      concat("/(", join({chosen.begin(), chosen.end()}, "|"), ")[_. -][^/]*$");
  for (const std::string& pattern : {has_bare_number ? anchored : plain, anchored}) {
    const Counts counts = count_files(pattern, paths);
    std::int64_t matched = 0, shared = 0;
    for (const auto& [group, count] : counts) {
      matched += count;
      shared += count > 1 ? count : 0;
    }
    if (matched != files || !names_groups(counts)) continue;
    // Fewer files that share a number, such as 3 pairs of 2,572 files, are a coincidence.
    constexpr std::int64_t kMinShare = 20;
    if (shared * kMinShare < std::ssize(paths)) return {};
    const auto largest = std::ranges::max_element(
        counts, [](const auto& a, const auto& b) { return a.second < b.second; });
    return {pattern, files, std::ssize(counts), largest->first, largest->second};
  }
  return {};
}

std::string describe_proposal(const std::vector<std::string>& paths) {
  const GroupProposal found = propose_groups(paths);
  if (found.pattern.empty()) return "";
  return concat("file names show groups: ", found.files, " training files in ", found.groups,
                " groups, e.g. ", found.example, " with ", found.example_files,
                " files. If these are of one person or object, keep them in one split with "
                "data.group_by: '",
                found.pattern, "'");
}

}  // namespace trainer::data
