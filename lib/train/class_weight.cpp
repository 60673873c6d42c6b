#include "train/class_weight.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "config/values.h"
#include "data/class_names.h"

namespace trainer::train {
namespace {

// Returns the number of classes, which is 2 for a single logit.
std::size_t count_classes(const data::Datasets& data) {
  return std::max<std::int64_t>(data.num_classes, 2);
}

// Finds a class by its name, or by its number if no class has that name.
std::size_t index_of(const std::string& name, const char* key,
                     const std::vector<std::string>& classes, const SourceLoc& loc) {
  const auto found = std::ranges::find(classes, name);
  if (found != classes.end()) return found - classes.begin();
  const std::int64_t index = parse_integer(name).value_or(-1);
  if (index >= 0 && index < std::ssize(classes)) return static_cast<std::size_t>(index);
  throw ConfigError(loc, key, ": the data has no class '", name, "'",
                    config::suggestion(name, classes),
                    "; its classes: ", data::list_classes(classes));
}

// Computes scikit-learn's compute_class_weight("balanced"); classes without samples get 1.
std::vector<float> balanced(const data::Dataset& train, std::size_t classes, const SourceLoc& loc) {
  std::vector<std::int64_t> counts(classes);
  for (std::int64_t i = 0; i < train.size(); ++i) {
    const std::int32_t label = train.label_at(i);
    if (label < 0) {
      throw ConfigError(loc,
                        "train.class_weight: balanced counts the samples of each class, but "
                        "sample ",
                        train.describe(i),
                        " has no class that is an index; give a map of classes to weights");
    }
    ++counts.at(label);
  }
  const auto present = static_cast<double>(
      std::ranges::count_if(counts, [](std::int64_t count) { return count > 0; }));
  std::vector<float> weights;
  for (const std::int64_t count : counts) {
    const double share = present * static_cast<double>(count) / static_cast<double>(train.size());
    weights.push_back(count > 0 ? static_cast<float>(1 / share) : 1.0f);
  }
  return weights;
}

}  // namespace

std::vector<float> class_weights(const config::Config& config, const data::Datasets& data) {
  const auto& wanted = config.train.class_weight;
  if (!wanted) return {};
  if (wanted->balanced) return balanced(*data.train, count_classes(data), wanted->loc);
  std::vector<std::string> names = data.classes;
  for (std::size_t i = names.size(); i < count_classes(data); ++i) {
    names.push_back(std::to_string(i));
  }
  return named_weights(*wanted, "train.class_weight", names);
}

void check_weighted_classes(const config::Config& config) {
  std::vector<std::string> names = config.data.classes;
  if (names.empty()) return;
  if (names.size() == 1) names.emplace_back("1");
  for (const auto& [key, weights] : {std::pair{"train.class_weight", &config.train.class_weight},
                                     std::pair{"train.pos_weight", &config.train.pos_weight}}) {
    if (*weights) named_weights(**weights, key, names);
  }
}

std::vector<float> named_weights(const config::ClassWeight& wanted, const char* key,
                                 const std::vector<std::string>& names) {
  std::vector<float> weights(names.size(), 1.0f);
  std::set<std::size_t> named;
  for (const auto& [name, weight] : wanted.weights) {
    const std::size_t index = index_of(name, key, names, wanted.loc);
    if (!named.insert(index).second) {
      throw ConfigError(wanted.loc, key, ": names class ", index,
                        " twice, by its name and by its number");
    }
    weights[index] = static_cast<float>(weight);
  }
  return weights;
}

}  // namespace trainer::train
