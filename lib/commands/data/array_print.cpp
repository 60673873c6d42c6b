#include "commands/data/array_print.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/text.h"
#include "commands/data/check_print.h"

namespace trainer::commands {
namespace {

using data::ArrayCheck;
using data::ArraySplitCheck;
using Json = nlohmann::ordered_json;

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

std::string to_json(const ArrayCheck& check) {
  std::string text;
  const auto add = [&text](const Json& line) { text += to_json_line(line) + '\n'; };
  for (const ArraySplitCheck& split : check.splits) {
    Json counts = Json::object();
    for (std::size_t i = 0; i < split.per_class.size(); ++i) {
      append_key(counts, check.classes[i], split.per_class[i]);
    }
    Json line{{"event", "split"},
              {"split", to_string(split.split)},
              {"samples", split.samples},
              {"class_counts", std::move(counts)},
              {"shape", split.shape.dims()},
              {"type", to_string(split.type)},
              {"values", {split.low, split.high}},
              {"constant", split.constant},
              {"copies", split.copies}};
    if (const auto imbalance = find_imbalance(split)) line["imbalance"] = *imbalance;
    add(line);
  }
  add({{"event", "data"},
       {"clean", check.clean()},
       {"classes", check.classes},
       {"shared", check.shared},
       {"conflicts", check.conflicts}});
  return text;
}

}  // namespace trainer::commands
