#include "data/images/listing/labels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "data/class_names.h"
#include "data/samples/splits.h"

namespace trainer::data {
namespace {

// Reads a whole number of at least 0, which may be written as 1.0.
bool as_index(const std::string& text, std::int32_t& value) {
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || value < 0) return false;
  if (end == last) return true;
  return *end == '.' && end + 1 != last &&
         std::all_of(end + 1, last, [](char c) { return c == '0'; });
}

bool is_number(const std::string& name) {
  const std::optional<double> number = parse_real(name);
  return number && std::isfinite(*number);
}

// Returns whether a label looks like several labels. Blanks are common in names, so that a blank
// separates labels only if all parts are labels themselves, or if few words form many labels.
bool joins_labels(const std::set<std::string>& names, const std::string& label, char separator,
                  const std::map<std::string, std::size_t>& uses) {
  const std::vector<std::string> parts = split_label(label, separator);
  if (parts.size() < 2) return false;
  const auto is_label = [&](const std::string& part) { return names.contains(part); };
  if (separator == ' ') {
    return std::ranges::all_of(parts, is_label) || uses.size() < names.size();
  }
  return std::ranges::any_of(parts, [&](const std::string& part) { return uses.at(part) > 1; });
}

}  // namespace

std::vector<std::string> split_label(const std::string& label, char separator) {
  std::vector<std::string> parts;
  for (std::string part : split_text(label, separator)) {
    const std::size_t first = part.find_first_not_of(' ');
    if (first == std::string::npos) continue;
    part.erase(0, first);
    part.erase(part.find_last_not_of(' ') + 1);
    parts.push_back(std::move(part));
  }
  return parts;
}

void reject_several_labels(const std::vector<std::string>& labels, const FailAt& fail) {
  const std::set<std::string> names(labels.begin(), labels.end());
  for (const char separator : {'|', ';', ',', ' '}) {
    std::map<std::string, std::size_t> uses;  // by part, the number of names that have it
    for (const std::string& name : names) {
      for (const std::string& part : split_label(name, separator)) ++uses[part];
    }
    for (const std::string& name : names) {
      if (!joins_labels(names, name, separator, uses)) continue;
      const auto first = std::ranges::find(labels, name);
      fail(first - labels.begin(),
           concat("the label '", escaped(name), "' looks like several labels, separated by '",
                  separator, "'. For several labels per image give data.csv: {label_separator: '",
                  separator,
                  "'} and model.loss: binary_cross_entropy; if these are names of classes, list "
                  "them in data.classes"));
    }
  }
}

std::vector<std::string> sort_classes(const std::vector<std::string>& names,
                                      config::ClassOrder order, const FailAt& fail) {
  if (order == config::ClassOrder::kText) {
    const std::set<std::string> sorted(names.begin(), names.end());
    return {sorted.begin(), sorted.end()};
  }
  std::map<double, std::string> by_value;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    if (!is_number(name)) {
      fail(i, concat("the class '", escaped(name),
                     "' is not a number; remove data.class_order: number"));
    }
    const auto [other, is_new] = by_value.try_emplace(*parse_real(name), name);
    if (is_new || other->second == name) continue;
    const auto [first, second] = std::minmax(other->second, name);
    fail(i, concat("the labels '", first, "' and '", second,
                   "' are the same number; write both the same way"));
  }
  std::vector<std::string> sorted;
  for (auto& [value, name] : by_value) sorted.push_back(std::move(name));
  return sorted;
}

config::ClassOrder choose_order(const std::vector<std::string>& labels) {
  return std::ranges::all_of(labels, is_number) ? config::ClassOrder::kNumber
                                                : config::ClassOrder::kText;
}

std::vector<std::string> find_classes(const std::vector<std::string>& labels,
                                      std::optional<config::ClassOrder> order, const FailAt& fail) {
  if (!order) order = choose_order(labels);
  std::int32_t max_index = -1;
  std::size_t max_label = 0;  // the index of the label with max_index
  bool are_indices = order == config::ClassOrder::kNumber;
  for (std::size_t i = 0; are_indices && i < labels.size(); ++i) {
    std::int32_t index = 0;
    are_indices = as_index(labels[i], index);
    if (index > max_index) max_label = i;
    max_index = std::max(max_index, index);
  }
  if (!are_indices) return sort_classes(labels, *order, fail);
  if (max_index >= max_classes(std::ssize(labels))) {
    fail(max_label, concat("the label ", max_index, " would make ", std::int64_t{max_index} + 1,
                           " classes of ", labels.size(),
                           " files; number the classes from 0, or name them with data.classes"));
  }
  std::vector<std::string> result;
  for (std::int32_t i = 0; i <= max_index; ++i) result.push_back(std::to_string(i));
  return result;
}

LabelIndex::LabelIndex(const std::vector<std::string>& classes)
    : classes_(classes),
      indices_(map_class_names(classes)),
      has_positions_(std::ranges::none_of(
          classes, [](const std::string& name) { return parse_real(name).has_value(); })) {}

std::int32_t LabelIndex::find(const std::string& label,
                              const std::function<void(const std::string&)>& fail) const {
  if (const auto found = indices_.find(label); found != indices_.end()) return found->second;
  std::int32_t index = 0;
  const bool is_index = as_index(label, index);
  if (is_index) {  // "1.0" is the class "1" if there is one
    const auto same = indices_.find(std::to_string(index));
    if (same != indices_.end()) return same->second;
  }
  if (!is_index || !has_positions_ || index >= static_cast<std::int32_t>(classes_.size())) {
    const std::string positions =
        has_positions_ ? concat(" (or 0 to ", classes_.size() - 1, ")") : std::string();
    fail(concat("the label '", escaped(label), "' is not a class; the classes are ",
                list_classes(classes_), positions, describe_similar_class(label, classes_)));
  }
  return index;
}

}  // namespace trainer::data
