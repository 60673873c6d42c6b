#include "data/images/listing/label_sets.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/error.h"

namespace trainer::data {
namespace {

// A set may have thousands of labels, and many messages may name it.
std::string join_labels(std::span<const std::int32_t> labels,
                        const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNames = 10;
  std::string text;
  for (const std::int32_t label : labels.first(std::min(labels.size(), kMaxNames))) {
    text += (text.empty() ? "" : "|") + names[label];
  }
  if (labels.size() > kMaxNames) text += concat(" and ", labels.size() - kMaxNames, " more");
  return text;
}

}  // namespace

bool LabelSets::Stored::operator<(const Stored& other) const {
  return std::tie(present, unknown) < std::tie(other.present, other.unknown);
}

std::int32_t LabelSets::add(std::vector<std::int32_t> present, std::vector<std::int32_t> unknown) {
  std::ranges::sort(present);
  present.erase(std::unique(present.begin(), present.end()), present.end());
  present.shrink_to_fit();
  std::ranges::sort(unknown);
  const auto [found, is_new] =
      indices_.try_emplace(Stored{std::move(present), std::move(unknown)}, size());
  if (is_new) sets_.push_back(&found->first);
  return found->second;
}

LabelSet LabelSets::at(std::int32_t set) const {
  const Stored& stored = *sets_[set];
  return {stored.present, stored.unknown};
}

void LabelSets::write_row(std::int32_t set, std::span<float> row) const {
  const LabelSet labels = at(set);
  std::ranges::fill(row, 0.0f);
  for (const std::int32_t label : labels.present) row[label] = 1;
  for (const std::int32_t label : labels.unknown) {
    row[label] = std::numeric_limits<float>::quiet_NaN();
  }
}

std::string LabelSets::describe(std::int32_t set, const std::vector<std::string>& names) const {
  const LabelSet labels = at(set);
  std::string text = labels.present.empty() ? "no label" : join_labels(labels.present, names);
  if (!labels.unknown.empty())
    text += concat(" (", join_labels(labels.unknown, names), " unknown)");
  return text;
}

}  // namespace trainer::data
