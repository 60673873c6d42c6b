#include <map>
#include <set>

#include "config/describe/schema.h"
#include "config/keys.h"

namespace trainer::config {
namespace {

// Describes one leaf for the comparison.
struct LeafPlace {
  Resume resume = Resume::kWarn;
  // The map above the leaf whose alternative must not change, and the alternative of the leaf.
  std::string choice, alternative;
};

LeafPlace find_place(const std::string& leaf) {
  LeafPlace place;
  const Schema* schema = &config_schema();
  std::string above, rest = leaf;
  while (!rest.empty()) {
    const std::string key = take_step(rest);
    const Field* field = schema->find(key);
    if (field == nullptr) break;  // the rest is a name inside the leaf's own value
    const bool fixed = schema->choice_resume == Resume::kSame;
    if (fixed && schema->is_choice(key)) {
      place.choice = above;
      place.alternative = key;
    }
    place.resume = field->schema.rule.resume.value_or(place.resume);
    above += (above.empty() ? "" : ".") + key;
    schema = &field->schema;
    if (schema->kind == Schema::Kind::kList) schema = &resolved(schema->item.front());
  }
  return place;
}

struct Side {
  std::map<std::string, std::string> values;        // by leaf
  std::map<std::string, std::string> alternatives;  // by choice

  explicit Side(const Config& config) {
    for (auto& [key, value] : leaves(config)) {
      if (const LeafPlace place = find_place(key); !place.choice.empty()) {
        alternatives[place.choice] = place.alternative;
      }
      values[key] = std::move(value);
    }
  }
  std::string value(const std::string& key) const {
    const auto found = values.find(key);
    return found == values.end() ? "absent" : found->second;
  }
};

bool allowed_to_warn(Resume resume, const std::string& before, const std::string& now) {
  switch (resume) {
    case Resume::kSame:
      return false;
    case Resume::kSameIfZero:
      return (before == "0") == (now == "0");
    case Resume::kWarn:
    case Resume::kFree:
      return true;
  }
  return true;
}

}  // namespace

std::vector<Change> resume_changes(const Config& before, const Config& now) {
  const Side old_side(before), new_side(now);
  // Ordered sums give the same bits for any number of threads and lanes.
  const bool ordered = before.parallel.reduction == Parallel::Reduction::kOrdered &&
                       now.parallel.reduction == Parallel::Reduction::kOrdered;
  std::vector<Change> changes;
  std::set<std::string> exchanged;
  for (const auto& [choice, alternative] : old_side.alternatives) {
    const auto found = new_side.alternatives.find(choice);
    if (found == new_side.alternatives.end() || found->second == alternative) continue;
    exchanged.insert(choice);
    changes.push_back({choice, alternative, found->second, Change::Severity::kError});
  }
  std::set<std::string> keys;
  for (const Side* side : {&old_side, &new_side}) {
    for (const auto& [key, value] : side->values) keys.insert(key);
  }
  for (const std::string& key : keys) {
    const std::string old_value = old_side.value(key), value = new_side.value(key);
    if (old_value == value) continue;
    const LeafPlace place = find_place(key);
    if (place.resume == Resume::kFree || exchanged.contains(place.choice)) continue;
    if (ordered && (key == keys::kThreads || key == keys::kLanes)) continue;
    const bool warn = allowed_to_warn(place.resume, old_value, value);
    changes.push_back(
        {key, old_value, value, warn ? Change::Severity::kWarning : Change::Severity::kError});
  }
  return changes;
}

}  // namespace trainer::config
