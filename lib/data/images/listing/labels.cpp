#include "data/images/listing/labels.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "data/splits.h"

namespace trainer::data {
namespace {

bool as_index(const std::string& text, std::int32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

}  // namespace

std::vector<std::string> classes_of(
    const std::vector<std::string>& labels,
    const std::function<void(std::size_t, const std::string&)>& fail) {
  std::set<std::string> names;
  std::int32_t most = -1;
  std::size_t largest = 0;  // which has it
  bool numbers = true;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::int32_t index = 0;
    numbers = numbers && as_index(labels[i], index);
    if (index > most) largest = i;
    most = std::max(most, index);
    names.insert(labels[i]);
  }
  if (!numbers) return {names.begin(), names.end()};
  if (most >= most_classes(static_cast<std::int64_t>(labels.size()))) {
    fail(largest, concat("the label ", most, " would make ", std::int64_t{most} + 1, " classes of ",
                         labels.size(),
                         " files; number the classes from 0, or name them with data.classes"));
  }
  std::vector<std::string> result;
  for (std::int32_t i = 0; i <= most; ++i) result.push_back(std::to_string(i));
  return result;
}

std::map<std::string, std::int32_t> indices_of(const std::vector<std::string>& classes) {
  std::map<std::string, std::int32_t> indices;
  for (const std::string& name : classes) {
    indices.emplace(name, static_cast<std::int32_t>(indices.size()));
  }
  return indices;
}

std::int32_t class_of(const std::string& label, const std::map<std::string, std::int32_t>& indices,
                      const std::vector<std::string>& classes,
                      const std::function<void(const std::string&)>& fail) {
  if (const auto found = indices.find(label); found != indices.end()) return found->second;
  std::int32_t index = 0;
  if (!as_index(label, index) || index >= static_cast<std::int32_t>(classes.size())) {
    fail(concat("the label '", escaped(label), "' is not a class; the classes are ", join(classes),
                " (or 0 to ", classes.size() - 1, ")"));
  }
  return index;
}

}  // namespace trainer::data
