#include "config/hints.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "config/describe/schema.h"
#include "config/values.h"

namespace trainer::config {
namespace {

constexpr std::size_t kMaxPlaces = 4;

std::size_t count_indent(const std::string& line) {
  return std::min(line.find_first_not_of(" \t"), line.size());
}

bool is_blank(const std::string& line) {
  const std::size_t start = count_indent(line);
  return start == line.size() || line[start] == '#';
}

// Replaces yaml-cpp's message for a tab in the indentation, which does not help.
std::string tab_hint(const std::string& line) {
  const bool tab = line.substr(0, count_indent(line)).find('\t') != std::string::npos;
  return tab ? "; indent with spaces, not with tabs" : "";
}

// In {path: ${DIR}/train} the brace of the variable ends the map.
std::string variable_hint(const std::string& line) {
  const std::size_t start = line.find("${");
  if (start == std::string::npos || line.find_first_of("{[") >= start) return "";
  const std::string before = line.substr(0, start);
  if (std::ranges::count(before, '"') % 2 == 1) return "";
  std::size_t begin = before.find_last_of(" ,[{");
  begin = begin == std::string::npos ? 0 : begin + 1;
  std::size_t end = start;
  int depth = 0;
  for (; end < line.size(); ++end) {
    const char letter = line[end];
    if (letter == '{') ++depth;
    if (letter == '}' && --depth < 0) break;
    if (depth == 0 && (letter == ',' || letter == ']' || letter == ' ')) break;
  }
  return concat("; put a variable within braces in quotes: \"", line.substr(begin, end - begin),
                "\"");
}

// YAML reads name:pets as one word.
std::string colon_hint(const std::string& line) {
  std::string_view text(line);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (text.starts_with("- ")) text.remove_prefix(2);
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return "";
  const std::string_view key = text.substr(0, colon), value = text.substr(colon + 1);
  const bool is_glued =
      !value.empty() && std::string_view(" \t\r:/\\").find(value[0]) == std::string_view::npos;
  if (!is_name(key) || !is_glued) return "";
  return concat("; write a space after the colon: '", key, ": ", value, "'");
}

// Recognises a list entry or key that is indented more than those before it, or between two levels.
std::string indent_hint(const std::vector<std::string>& lines, std::size_t at) {
  const std::size_t indent = count_indent(lines[at]);
  for (std::size_t i = 0; i < at; ++i) {
    if (!is_blank(lines[i]) && count_indent(lines[i]) == indent) return "";  // a level above
  }
  const bool entry = lines[at].substr(indent).starts_with("- ");
  for (std::size_t i = at; i-- > 0;) {
    if (is_blank(lines[i])) continue;
    const std::size_t above = count_indent(lines[i]);
    if (entry != lines[i].substr(above).starts_with("- ") || above == indent) return "";
    return concat("; it is indented by ", counted(indent, "space"), ", the line above by ", above,
                  ": align them as '", std::string(above, ' ') + lines[at].substr(indent), "'");
  }
  return "";
}

std::string keras_key(const std::string& key) {
  if (key == "lr" || key == "learning_rate") return "learning_rate";
  if (key == "batch") return "batch_size";
  if (key == "epoch" || key == "num_epochs" || key == "n_epochs") return "epochs";
  return key;
}

// Returns the path in the same folder whose name is most like that of a path that does not exist.
std::optional<std::string> nearest_path(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr std::size_t kMaxNames = 1000;
  const fs::path written = path;
  const fs::path missing = written.has_filename() ? written : written.parent_path();
  const fs::path folder = missing.parent_path();
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end && names.size() < kMaxNames; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  const std::optional<std::string> name = nearest(missing.filename().string(), names);
  return name ? std::optional((folder / *name).string()) : std::nullopt;
}

}  // namespace

std::string syntax_hint(const std::string& text, int line) {
  const std::vector<std::string> lines = split_lines(text);
  if (lines.empty()) return "";
  const std::size_t at = std::min<std::size_t>(std::max(line, 0), lines.size() - 1);
  if (const std::string hint = tab_hint(lines[at]); !hint.empty()) return hint;
  // The mistake is often in the line before the one at which the parser stops.
  for (std::size_t back = 0; back < 2 && back <= at; ++back) {
    for (const auto& hint_of : {variable_hint, colon_hint}) {
      if (const std::string hint = hint_of(lines[at - back]); !hint.empty()) return hint;
    }
  }
  return indent_hint(lines, at);
}

std::string place_hint(const std::string& key, const std::string& path) {
  const std::string wanted = keras_key(key);
  std::vector<std::string> places, below;
  for (const std::string& one : settable_keys()) {
    if (one.substr(one.rfind('.') + 1) != wanted) continue;
    places.push_back(one);
    if (!path.empty() && one.starts_with(path + '.')) below.push_back(one);
  }
  if (!below.empty()) places = below;
  if (places.empty()) return "";
  // Many places of one section, such as a key of every optimizer, still show what is meant.
  const std::string section = places.front().substr(0, places.front().find('.') + 1);
  const bool in_one_section =
      std::ranges::all_of(places, [&](const std::string& one) { return one.starts_with(section); });
  if (below.empty() && places.size() > kMaxPlaces && !in_one_section) return "";
  const std::size_t more = places.size() - std::min(places.size(), kMaxPlaces);
  places.resize(places.size() - more);
  return concat(", did you mean ", join(places, " or "),
                more > 0 ? concat(" or one of ", more, " others?") : "?");
}

std::optional<NamedChoice> named_choice(const Node& map, const std::vector<std::string>& choices,
                                        const std::vector<std::string>& keys) {
  for (const char* key : {"name", "type", "class_name"}) {
    const Entry* entry = map.find(key);
    if (entry == nullptr || entry->value.kind != Node::Kind::kScalar) continue;
    const std::string word = to_lower(entry->value.text);
    if (std::ranges::find(choices, word) == choices.end()) continue;
    Node inner;
    inner.kind = Node::Kind::kMap;
    for (const Entry& other : map.entries) {
      const bool stays = std::ranges::find(keys, other.key) != keys.end();
      if (other.key == key || stays) continue;
      Entry& kept = inner.entries.emplace_back();
      kept.key = keras_key(other.key);
      kept.value = other.value;
    }
    return NamedChoice{word, concat("the name is the key itself: write '", word,
                                    inner.entries.empty() ? "" : ": " + print_flow(inner), "'")};
  }
  return std::nullopt;
}

std::string describe_missing(const std::string& kind, const std::string& path,
                             const std::string& expected) {
  const std::optional<std::string> name = nearest_path(path);
  return name ? concat("no such ", kind, ", did you mean '", printable(*name), "'? Expected ",
                       expected)
              : concat("no such ", kind, "; expected ", expected);
}

std::string list_hint(const std::string& text, const std::string& path) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  constexpr std::size_t kMaxStart = 4096;
  const std::size_t start = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  if (text.substr(0, kMaxStart).find('\0') != std::string::npos) {
    return concat(
        "is not a text file, and a config is one. To predict an image, run `trainer predict RUN ",
        shell_word(path), "`; to train, give a folder that has a folder of images for each class");
  }
  for (const std::string& line : split_text(text.substr(start), '\n')) {
    if (is_blank(line)) continue;
    // These begin a map or an item before one.
    if (std::string("{[?&!%-").find(line[count_indent(line)]) != std::string::npos) return "";
    const bool is_entry = line.find(": ") != std::string::npos ||
                          line.find(":\t") != std::string::npos || line.ends_with(':');
    if (is_entry) return "";
    const bool has_tab = line.find('\t') != std::string::npos;
    if (!has_tab && line.find(',') == std::string::npos) return "";
    const std::string ending = has_tab ? ".tsv" : ".csv";
    std::filesystem::path named = path;
    const bool is_named = named.extension() == ending;
    const std::string list = named.replace_extension(ending).string();
    return concat("looks like a list of images, not a config (it begins with ",
                  printable(describe(scalar_node(line, false))), "); ",
                  is_named ? "" : concat("name it ", list, " and "), "run `trainer train ",
                  shell_word(list), "`");
  }
  return "";
}

}  // namespace trainer::config
