#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "commands/data/check_print.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

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

// A split of arrays as a line of JSON.
struct ArraySplit {
  ArraySplitCheck check;
  std::vector<std::string> classes;
};

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

// What all splits have in common, as a line of JSON.
struct ArrayData {
  ArrayCheck check;
};

void fields(results::FieldVisitor& v, ArrayData& data) {
  v.event("data");
  v.derived("clean", data.check.clean(), "Whether no samples are shared or in conflict.");
  v("classes", data.check.classes, "The classes or labels.");
  v("shared", data.check.shared, "Equal samples in two splits.");
  v("conflicts", data.check.conflicts, "Equal samples with different labels.");
}

std::string to_json(const ArrayCheck& check) {
  std::string text;
  for (const ArraySplitCheck& split : check.splits) {
    text += results::to_line(ArraySplit{split, check.classes});
  }
  return text + results::to_line(ArrayData{check});
}

}  // namespace trainer::commands
