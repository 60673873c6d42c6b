#include "train/target_weight.h"

#include "base/error.h"
#include "train/class_weight.h"

namespace trainer::train {
namespace {

// Returns the number of training samples without each label / that of samples with it.
std::vector<float> balance_positives(const data::Datasets& data, const SourceLoc& loc) {
  const std::vector<data::LabelCounts> counts = data::count_labels(*data.train);
  std::vector<float> weights;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].positives == 0 || counts[i].negatives == 0) {
      throw ConfigError(loc,
                        "train.pos_weight: balanced needs training samples with and "
                        "without each label, but ",
                        counts[i].positives == 0 ? "none has" : "all have", " '", data.classes[i],
                        "'; give a map of labels to weights");
    }
    weights.push_back(static_cast<float>(static_cast<double>(counts[i].negatives) /
                                         static_cast<double>(counts[i].positives)));
  }
  return weights;
}

std::vector<float> read_weights(const std::optional<config::ClassWeight>& wanted, const char* key,
                                const data::Datasets& data) {
  if (!wanted) return std::vector<float>(data.classes.size(), 1.0f);
  return named_weights(*wanted, key, data.classes);
}

}  // namespace

std::vector<float> target_weights(const config::Config& config, const data::Datasets& data) {
  const auto& by_label = config.train.class_weight;
  const auto& by_positive = config.train.pos_weight;
  if (!by_label && !by_positive) return {};
  if (by_label && by_label->balanced) {
    throw ConfigError(by_label->loc,
                      "train.class_weight: balanced is for one class per image; with several "
                      "labels per image give train.pos_weight: balanced, or a map of labels to "
                      "weights");
  }
  const bool is_balanced = by_positive && by_positive->balanced;
  const std::vector<float> class_weights = read_weights(by_label, "train.class_weight", data);
  const std::vector<float> positive = is_balanced
                                          ? balance_positives(data, by_positive->loc)
                                          : read_weights(by_positive, "train.pos_weight", data);
  std::vector<float> weights = class_weights;
  for (std::size_t i = 0; i < class_weights.size(); ++i)
    weights.push_back(class_weights[i] * positive[i]);
  return weights;
}

}  // namespace trainer::train
