#include "train/changes.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"

namespace trainer::train {
namespace {

using Prefixes = std::initializer_list<std::string_view>;

bool starts_with_any(const std::string& key, Prefixes prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return key.starts_with(prefix); });
}

bool contains_any(const std::string& key, Prefixes parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return key.find(part) != std::string::npos; });
}

// The same samples are found by the data's fingerprint, wherever they lie.
bool without_effect(const std::string& key) {
  return starts_with_any(key, {"name", "run.", "parallel.", "evaluate.", "data.threads",
                               "data.prefetch", "data.cache", "data.path", "data.max_",
                               "train.cache_features", "model.weights", "model.backbone.weights",
                               "model.allow_missing", "model.backbone.allow_missing"}) ||
         (key.starts_with("data.") && contains_any(key, {".path", ".images", ".labels", ".glob"}));
}

// Random parts, penalties and what is frozen may change on the way; initial values no longer count.
bool part_of_the_function(const std::string& key) {
  if (key.starts_with("model.")) {
    return !contains_any(key, {"freeze", "learning_rate_multiplier", "initializer", "regularizer",
                               "dropout", "label_smoothing", "backbone.batch_norm"});
  }
  return starts_with_any(
      key, {"data.normalize", "data.preprocess", "data.resize", "data.channels",
            "data.interpolation", "data.antialias", "data.fit", "data.crop_fraction"});
}

// "adam" of optimizer.adam.beta_1; empty for other keys.
std::string optimizer_of(const std::string& key) {
  constexpr std::string_view kSection = "optimizer.";
  if (!key.starts_with(kSection)) return "";
  const auto end = key.find('.', kSection.size());
  return end == std::string::npos ? "" : key.substr(kSection.size(), end - kSection.size());
}

// Whether only one of the two keeps a slot for it.
bool changes_slots(const std::string& key, const std::string& was, const std::string& is) {
  if (key.ends_with(".amsgrad") || key.ends_with(".centered")) return true;
  return key.starts_with("optimizer.") && key.ends_with(".momentum") && (was == "0") != (is == "0");
}

using Values = std::map<std::string, std::string>;

Values values_of(const config::Config& config) {
  const auto leaves = config::leaves(config);
  return {leaves.begin(), leaves.end()};
}

std::string optimizer_of(const Values& values) {
  for (const auto& [key, value] : values) {
    if (const std::string name = optimizer_of(key); !name.empty()) return name;
  }
  return "";
}

std::string value_of(const Values& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? "absent" : found->second;
}

}  // namespace

Changes changes_between(const config::Config& was, const config::Config& now) {
  const Values before = values_of(was), after = values_of(now);
  Changes changes;
  const std::string old_optimizer = optimizer_of(before), optimizer = optimizer_of(after);
  if (old_optimizer != optimizer)
    changes.refused.push_back(concat("optimizer was ", old_optimizer, ", is ", optimizer));
  std::set<std::string> keys;
  for (const Values* values : {&before, &after}) {
    for (const auto& [key, value] : *values) keys.insert(key);
  }
  for (const std::string& key : keys) {
    const std::string old_value = value_of(before, key), value = value_of(after, key);
    if (old_value == value || without_effect(key)) continue;
    if (old_optimizer != optimizer && !optimizer_of(key).empty()) continue;
    const bool refused = part_of_the_function(key) || changes_slots(key, old_value, value);
    (refused ? changes.refused : changes.told)
        .push_back(concat(key, " was ", old_value, ", is ", value));
  }
  return changes;
}

}  // namespace trainer::train
