#include "data/images/listing/label_sets.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace trainer::data {

std::int32_t LabelSets::add(std::span<const float> row) {
  std::string text;
  for (const float target : row) text += std::isnan(target) ? '?' : target > 0 ? '1' : '0';
  const auto [found, is_new] = by_text_.try_emplace(text, size());
  if (is_new) rows_.insert(rows_.end(), row.begin(), row.end());
  return found->second;
}

std::string LabelSets::describe(std::int32_t set, const std::vector<std::string>& names) const {
  std::vector<std::string> present, unknown;
  const std::span<const float> targets = row(set);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (std::isnan(targets[i])) {
      unknown.push_back(names[i]);
    } else if (targets[i] > 0) {
      present.push_back(names[i]);
    }
  }
  std::string text = present.empty() ? "no label" : join(present, "|");
  if (!unknown.empty()) text += concat(" (", join(unknown, "|"), " unknown)");
  return text;
}

}  // namespace trainer::data
