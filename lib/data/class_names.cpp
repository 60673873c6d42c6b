#include "data/class_names.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace trainer::data {
namespace {

constexpr int kCompose = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
constexpr int kDecompose = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
constexpr int kFoldCase = UTF8PROC_CASEFOLD;

// Returns the text after these operations of utf8proc; the text itself if it is not UTF-8.
std::string transform(const std::string& text, int options) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                   static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, std::free);
  if (length < 0) return text;
  return {reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length)};
}

bool is_blank(utf8proc_int32_t code) {
  constexpr utf8proc_int32_t kZeroWidthSpace = 0x200B, kByteOrderMark = 0xFEFF;
  const utf8proc_category_t category = utf8proc_category(code);
  return code == '\t' || code == kZeroWidthSpace || code == kByteOrderMark ||
         category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

// Returns the text without blanks of any width; the text itself if it is not UTF-8.
std::string remove_blanks(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    const auto length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                         static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (length <= 0) return text;
    if (!is_blank(code)) result.append(text, at, length);
    at += length;
  }
  return result;
}

// Composing after folding is not enough: folding may leave marks in another order.
std::string make_key(const std::string& name) {
  return transform(transform(remove_blanks(name), kDecompose | kFoldCase), kCompose);
}

using Key = std::string (*)(const std::string&);

bool all_equal(const std::vector<std::string>& names, Key key) {
  const std::string first = key(names[0]);
  return std::ranges::all_of(names, [&](const std::string& name) { return key(name) == first; });
}

// Returns what similar names differ by: "case", "blanks and case". Each kind of difference remains
// if the other kinds are taken away.
std::string describe_difference(const std::vector<std::string>& names) {
  std::vector<std::string> kinds;
  const Key keep_blanks = [](const std::string& name) {
    return transform(name, kDecompose | kFoldCase);
  };
  const Key keep_case = [](const std::string& name) {
    return transform(remove_blanks(name), kCompose);
  };
  const Key keep_form = [](const std::string& name) {
    return transform(remove_blanks(name), kFoldCase);
  };
  if (!all_equal(names, keep_blanks)) kinds.emplace_back("blanks");
  if (!all_equal(names, keep_case)) kinds.emplace_back("case");
  if (!all_equal(names, keep_form) || kinds.empty()) kinds.emplace_back("Unicode form");
  return join(kinds, " and ");
}

// Returns the name in quotes, with its bytes if it is not ASCII: names that differ by Unicode form
// look the same.
std::string quote(const std::string& name) {
  const std::string shown = printable(name), bytes = escaped(name);
  return shown == bytes ? concat('\'', shown, '\'') : concat('\'', shown, "' (", bytes, ')');
}

}  // namespace

std::vector<std::string> describe_similar_names(const std::vector<std::string>& classes) {
  std::map<std::string, std::vector<std::size_t>> by_key;
  for (std::size_t i = 0; i < classes.size(); ++i) by_key[make_key(classes[i])].push_back(i);
  std::vector<std::vector<std::size_t>> sets;
  for (auto& [key, places] : by_key) {
    if (places.size() > 1) sets.push_back(std::move(places));
  }
  std::ranges::sort(sets);
  std::vector<std::string> lines;
  for (const std::vector<std::size_t>& places : sets) {
    std::vector<std::string> similar, quoted;
    for (const std::size_t i : places) {
      similar.push_back(classes[i]);
      quoted.push_back(quote(classes[i]));
    }
    lines.push_back(concat("the classes ", join(quoted), " differ only by ",
                           describe_difference(similar),
                           "; if they are one class, give them one name"));
  }
  return lines;
}

std::string list_classes(std::vector<std::string> classes) {
  constexpr std::size_t kMaxNames = 20;
  return join_first(std::move(classes), kMaxNames);
}

std::string describe_similar_class(const std::string& name,
                                   const std::vector<std::string>& classes) {
  const std::string key = make_key(name);
  const auto similar = std::ranges::find_if(
      classes, [&](const std::string& each) { return make_key(each) == key && each != name; });
  if (similar == classes.end()) return "";
  return concat("; it differs from the class ", quote(*similar), " only by ",
                describe_difference({name, *similar}));
}

std::map<std::string, std::int32_t> map_class_names(const std::vector<std::string>& classes) {
  std::map<std::string, std::int32_t> labels;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    labels.emplace(classes[i], static_cast<std::int32_t>(i));
  }
  for (std::size_t i = 0; i < classes.size(); ++i) {
    for (const int form : {kCompose, kDecompose}) {
      labels.emplace(transform(classes[i], form), static_cast<std::int32_t>(i));
    }
  }
  return labels;
}

void InnerClassFolders::add(std::int32_t label, std::string_view path) {
  for (std::size_t slash; (slash = path.find('/')) != path.npos; path.remove_prefix(slash + 1)) {
    const std::string name(path.substr(0, slash));
    const auto found = labels_.find(name);
    if (found == labels_.end() || found->second == label) continue;
    ++images_;
    folders_.insert(concat(classes_[label], '/', name));
    return;
  }
}

std::string InnerClassFolders::describe(const std::string& source) const {
  if (images_ == 0) return "";
  return concat(source, ": ", images_, images_ == 1 ? " image lies" : " images lie",
                " in the folder of one class inside the folder of another, and get the label of "
                "the outer one: ",
                join_first({folders_.begin(), folders_.end()}, 6),
                "; if this is a copy of the data set inside itself, move it away");
}

}  // namespace trainer::data
