#include "commands/data/check_print.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/text.h"

namespace trainer::commands {

using data::DataCheck;
using data::SplitCheck;
using Json = nlohmann::ordered_json;

namespace {

// Returns the line on the classes and on what decides their order.
std::string describe_class_order(const DataCheck& check) {
  constexpr std::size_t kMaxNames = 12;
  return concat("classes in the order ", check.class_order, ": ",
                printable(join_first(check.classes, kMaxNames)), '\n');
}

// Returns ": 7", or ": 7 (1 GIF, 6 JPEG)" for a split of several formats.
std::string describe_class(const SplitCheck& split, std::size_t label) {
  std::string text = concat(": ", split.per_class[label]);
  if (split.kinds.size() < 2) return text;
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : split.class_kinds[label]) {
    kinds.push_back(concat(count, ' ', kind));
  }
  return kinds.empty() ? text : concat(text, " (", join(kinds), ')');
}

}  // namespace

void list_lines(std::string& text, const char* title, const std::vector<std::string>& lines) {
  constexpr std::size_t kMaxListed = 10;
  if (lines.empty()) return;
  text += concat(title, ": ", lines.size(), '\n');
  const std::size_t shown = std::min(lines.size(), kMaxListed);
  for (std::size_t i = 0; i < shown; ++i) text += "  " + printable(lines[i]) + '\n';
  if (shown < lines.size()) {
    text += concat("  and ", lines.size() - shown, " more; --json lists all\n");
  }
}

std::string to_text(const DataCheck& check) {
  std::string text = describe_class_order(check);
  for (const SplitCheck& split : check.splits) {
    text += concat(to_string(split.split), ": ", split.files, " files");
    for (const auto& [kind, count] : split.kinds) text += concat(", ", count, ' ', kind);
    text += concat(", ", split.min_width, " to ", split.max_width, " wide, ", split.min_height,
                   " to ", split.max_height, " high");
    if (split.grey > 0) text += concat(", ", split.grey, " grey");
    if (split.turned > 0) text += concat(", ", split.turned, " turned by EXIF");
    text += '\n';
    for (std::size_t i = 0; i < check.classes.size(); ++i) {
      text += concat("  ", printable(check.classes[i]), describe_class(split, i), '\n');
    }
    for (const std::string& note : split.notes) text += "  " + printable(note) + '\n';
    list_lines(text, "  damaged files", split.damaged);
    if (!split.missing.empty()) text += "  " + printable(split.missing) + '\n';
    list_lines(text, "  decoded with warnings", split.suspicious);
  }
  list_lines(text, "equal files in two splits or classes", check.duplicates);
  if (check.conflicts > 0) {
    text += concat("photos in several classes of a split: ", check.conflicts,
                   "; data.on_conflict: drop leaves them out, first keeps the first class\n");
  }
  if (check.relabel) text += check.relabel->describe() + '\n';
  if (!check.group_source.empty()) {
    text += concat(check.group_source, ": ", check.grouped_files, " files in ", check.groups,
                   " groups");
    if (check.ungrouped_files > 0) {
      text += concat("; ", check.ungrouped_files, " files are in none, each a group of its own");
    }
    text += '\n';
  }
  list_lines(text, "groups in more than one split", check.shared_groups);
  if (!check.group_proposal.empty()) text += printable(check.group_proposal) + '\n';
  if (!check.advice.empty()) text += check.advice + '\n';
  if (check.clean()) text += "nothing damaged, no file in two splits\n";
  return text;
}

std::string to_json(const DataCheck& check) {
  std::string text;
  const auto add = [&text](const Json& line) { text += to_json_line(line) + '\n'; };
  for (const SplitCheck& split : check.splits) {
    Json counts = Json::object(), kinds = Json::object();
    for (std::size_t i = 0; i < check.classes.size(); ++i) {
      append_key(counts, check.classes[i], split.per_class[i]);
      append_key(kinds, check.classes[i], split.class_kinds[i]);
    }
    add({{"event", "split"},
         {"split", to_string(split.split)},
         {"class_counts", std::move(counts)},
         {"kinds", split.kinds},
         {"class_kinds", std::move(kinds)},
         {"width", {split.min_width, split.max_width}},
         {"height", {split.min_height, split.max_height}},
         {"grey", split.grey},
         {"turned", split.turned},
         {"notes", split.notes},
         {"damaged", split.damaged},
         {"suspicious", split.suspicious}});
  }
  Json line{{"event", "data"},
            {"clean", check.clean()},
            {"classes", check.classes},
            {"class_order", check.class_order},
            {"conflicts", check.conflicts},
            {"duplicates", check.duplicates},
            {"shared_groups", check.shared_groups}};
  if (check.relabel) {
    line["relabel"] = {{"file", check.relabel->file},
                       {"changed", check.relabel->changed},
                       {"dropped", check.relabel->dropped}};
  }
  if (!check.group_source.empty()) {
    line["group_source"] = check.group_source;
    line["grouped_files"] = check.grouped_files;
    line["ungrouped_files"] = check.ungrouped_files;
    line["groups"] = check.groups;
  }
  if (!check.group_proposal.empty()) line["group_proposal"] = check.group_proposal;
  if (!check.advice.empty()) line["advice"] = check.advice;
  add(line);
  return text;
}

}  // namespace trainer::commands
