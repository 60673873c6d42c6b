#include "commands/data/check_print.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "results/write_json.h"

namespace trainer::results {

void fields(FieldVisitor& v, data::RelabelCounts& counts) {
  v("file", counts.file, "The file of data.relabel.");
  v("changed", counts.changed, "Images with another label.");
  v("dropped", counts.dropped, "Images that are left out.");
}

void fields(FieldVisitor& v, data::DataCheck& check) {
  std::optional<std::int64_t> grouped, ungrouped, groups;
  if (!check.group_source.empty()) {
    grouped = check.grouped_files;
    ungrouped = check.ungrouped_files;
    groups = check.groups;
  }
  v.event("data");
  v.derived("clean", check.clean(), "Whether nothing is damaged and nothing is in two splits.");
  v("classes", check.classes, "The classes or labels.");
  v("class_order", check.class_order, "What decides their order.");
  v("conflicts", check.conflicts, "Photos that a split has in several classes.");
  v("duplicates", check.duplicates, "Equal files in two splits or classes.");
  v("shared_groups", check.shared_groups, "Groups that several splits have.");
  v.when_present("relabel", check.relabel, "The changes by data.relabel.");
  v.when_present("group_source", check.group_source, "The key or option that makes groups.");
  v.when_present("grouped_files", grouped, "Files in groups.");
  v.when_present("ungrouped_files", ungrouped, "Files that are groups of their own.");
  v.when_present("groups", groups, "Groups of several files or one.");
  v.when_present("group_proposal", check.group_proposal, "The groups that names of files show.");
  v.when_present("advice", check.advice, "How to keep groups together.");
}

void fields(FieldVisitor& v, data::ArrayCheck& check) {
  v.event("data");
  v.derived("clean", check.clean(), "Whether no samples are shared or in conflict.");
  v("classes", check.classes, "The classes or labels.");
  v("shared", check.shared, "Equal samples in two splits.");
  v("conflicts", check.conflicts, "Equal samples with different labels.");
}

}  // namespace trainer::results

namespace trainer::commands {

using data::DataCheck;
using data::SplitCheck;

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

// Appends the title with the number of lines, and the first lines.
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

using data::ArrayCheck;
using data::ArraySplitCheck;

// Returns the classes with the most and the fewest samples; nullopt without classes.
std::optional<std::pair<std::size_t, std::size_t>> find_extremes(const ArraySplitCheck& split) {
  const std::vector<std::int64_t>& counts = split.per_class;
  if (counts.empty()) return std::nullopt;
  const auto largest = std::ranges::max_element(counts);
  const auto smallest = std::ranges::min_element(counts);
  return std::pair(static_cast<std::size_t>(largest - counts.begin()),
                   static_cast<std::size_t>(smallest - counts.begin()));
}

// Returns the number of samples of the largest class per sample of the smallest; nullopt if a class
// has no sample, or without classes.
std::optional<double> find_imbalance(const ArraySplitCheck& split) {
  const auto extremes = find_extremes(split);
  if (!extremes || split.per_class[extremes->second] == 0) return std::nullopt;
  return static_cast<double>(split.per_class[extremes->first]) /
         static_cast<double>(split.per_class[extremes->second]);
}

std::string describe_imbalance(const ArraySplitCheck& split,
                               const std::vector<std::string>& classes) {
  const auto extremes = find_extremes(split);
  if (!extremes) return "  labels are numbers, not classes\n";
  const auto [largest, smallest] = *extremes;
  const auto describe_class = [&](std::size_t label) {
    return concat(printable(classes[label]), " (", split.per_class[label], ')');
  };
  const std::optional<double> imbalance = find_imbalance(split);
  if (!imbalance) return concat("  class without samples: ", describe_class(smallest), '\n');
  return concat("  largest class ", describe_class(largest), ", smallest ",
                describe_class(smallest), ": ", std::round(*imbalance * 100) / 100, " times\n");
}

}  // namespace

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

constexpr results::Unit kPixels{"pixels", 0};

void fields(results::FieldVisitor& v, ImageSplit& split) {
  SplitCheck& check = split.check;
  std::vector<std::pair<std::string, std::int64_t>> counts;
  std::vector<std::pair<std::string, std::map<std::string, std::int64_t>>> kinds;
  for (std::size_t i = 0; i < split.classes.size(); ++i) {
    counts.emplace_back(split.classes[i], check.per_class[i]);
    kinds.emplace_back(split.classes[i], check.class_kinds[i]);
  }
  v.event("split");
  v("split", check.split, "The split.");
  v.derived("class_counts", counts, "Files of each class or label.");
  v("kinds", check.kinds, "Files of each format.");
  v.derived("class_kinds", kinds, "Files of each format, by class.");
  v.derived("width", std::vector{check.min_width, check.max_width}, kPixels, "Least and largest.");
  v.derived("height", std::vector{check.min_height, check.max_height}, kPixels,
            "Least and largest.");
  v("grey", check.grey, "Grey images.");
  v("turned", check.turned, "Images that EXIF turns.");
  v("notes", check.notes, "Notes on the split.");
  v("damaged", check.damaged, "Files that cannot be read, and why.");
  v("suspicious", check.suspicious, "Files that are decoded with warnings.");
}

// Returns a line for each split, as a Split, and one for all.
template <class Split, class Check>
static std::string write_lines(const Check& check) {
  std::string text;
  for (const auto& split : check.splits) text += results::to_line(Split{split, check.classes});
  return text + results::to_line(check);
}

std::string to_json(const DataCheck& check) { return write_lines<ImageSplit>(check); }
std::string to_json(const data::ArrayCheck& check) { return write_lines<ArraySplit>(check); }

std::string to_text(const ArrayCheck& check) {
  constexpr std::size_t kMaxNames = 12;
  std::string text = concat("classes: ", printable(join_first(check.classes, kMaxNames)), '\n');
  for (const ArraySplitCheck& split : check.splits) {
    text +=
        concat(to_string(split.split), ": ", split.samples, " samples, ", to_string(split.shape),
               ' ', to_string(split.type), ", values ", split.low, " to ", split.high, '\n');
    for (std::size_t i = 0; i < split.per_class.size(); ++i) {
      text += concat("  ", printable(check.classes[i]), ": ", split.per_class[i], '\n');
    }
    text += describe_imbalance(split, check.classes);
    if (split.constant > 0) {
      text += concat("  samples all of whose values are equal: ", split.constant, '\n');
    }
    if (split.copies > 0) {
      text += concat("  samples that equal an earlier sample of the split: ", split.copies, '\n');
    }
  }
  list_lines(text, "equal samples in two splits", check.shared);
  list_lines(text, "equal samples with different labels", check.conflicts);
  if (check.clean()) {
    text += "all values finite, no sample in two splits, none with two labels\n";
  }
  return text;
}

void fields(results::FieldVisitor& v, ArraySplit& split) {
  ArraySplitCheck& check = split.check;
  std::vector<std::pair<std::string, std::int64_t>> counts;
  for (std::size_t i = 0; i < check.per_class.size(); ++i) {
    counts.emplace_back(split.classes[i], check.per_class[i]);
  }
  std::optional<double> imbalance = find_imbalance(check);
  v.event("split");
  v("split", check.split, "The split.");
  v("samples", check.samples, "Samples of the split.");
  v.derived("class_counts", counts, "Samples of each class or label.");
  v.derived("shape", check.shape.dims(), "Height, width and channels.");
  v.derived("type", std::string(to_string(check.type)), "Type of the values.");
  v.derived("values", std::vector<double>{check.low, check.high}, "The least and the largest.");
  v("constant", check.constant, "Samples all of whose values are equal.");
  v("copies", check.copies, "Samples that equal an earlier one of the split.");
  v.when_present("imbalance", imbalance, "Samples of the largest class per one of the smallest.");
}

}  // namespace trainer::commands
