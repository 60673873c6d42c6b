#include "inference/decisions/thresholds.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/text.h"
#include "data/class_names.h"
#include "inference/decisions/scored_split.h"
#include "inference/decisions/stored_result.h"
#include "train/class_order.h"

namespace trainer::inference {
namespace {

constexpr const char* kThresholdOption = "--thresholds GOAL";

// Returns the thresholds for the samples of `scores`, which must have all of them.
results::LabelThresholds find_thresholds(const OpenedModel& opened,
                                         const engine::MultiLabelAccumulator& scores,
                                         const engine::ThresholdGoal& goal) {
  results::LabelThresholds found{engine::to_string(goal)};
  const std::size_t labels = opened.classes.size(), samples = scores.logits().size() / labels;
  std::vector<float> own(samples), targets(samples);
  for (std::size_t label = 0; label < labels; ++label) {
    for (std::size_t i = 0; i < samples; ++i) {
      own[i] = scores.logits()[i * labels + label];
      targets[i] = scores.targets()[i * labels + label];
    }
    const std::optional<double> threshold = engine::find_threshold(own, targets, goal);
    if (!threshold) found.kept.push_back(opened.classes[label]);
    found.logits.push_back(threshold.value_or(0));
  }
  return found;
}

// Writes the thresholds to the run folder as store_result() does. `flip`: they are those of the
// mean over mirror images. Does nothing for a model without a run folder.
void write_thresholds(const OpenedModel& opened, bool flip,
                      const results::LabelThresholds& thresholds) {
  results::StoredThresholds stored;
  stored.goal = thresholds.goal;
  for (std::size_t i = 0; i < thresholds.logits.size(); ++i) {
    stored.labels.push_back({opened.classes[i], thresholds.logits[i]});
  }
  store_result(opened, flip, results::kThresholdsFile, stored);
}

}  // namespace

engine::ThresholdGoal parse_thresholds(const std::string& text, const OpenedModel& opened,
                                       const std::string& split) {
  const auto goal = engine::parse_threshold_goal(text);
  if (!goal) {
    throw ConfigError({}, "--thresholds is ", text,
                      "; expected f1, sensitivity=S or specificity=S with S above 0 and "
                      "at most 1, or cost=FP:FN");
  }
  if (!opened.is_multi_label()) {
    throw ConfigError({}, "--thresholds is for several labels per image, and the model of ",
                      opened.path, " has one class per image");
  }
  if (!split.empty() && split != "validation") {
    throw ConfigError({}, "--thresholds are found on the validation split; remove --split ", split);
  }
  if (!find_run_folder(opened)) {
    throw ConfigError({}, "--thresholds are kept in a run folder, and ", printable(opened.path),
                      " is not a run");
  }
  return *goal;
}

engine::Metrics evaluate_labels(engine::Engine& engine, const data::Dataset& dataset,
                                const OpenedModel& opened,
                                const std::optional<engine::ThresholdGoal>& goal,
                                engine::EvaluateOptions options,
                                results::LabelThresholds& thresholds) {
  if (!goal) {
    thresholds = read_thresholds(opened, options.flip);
    options.thresholds = thresholds.logits;
    return *engine::evaluate(engine, dataset, options);
  }
  const auto labels = std::ssize(opened.classes);
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  engine::MultiLabelAccumulator scores(labels, kAll);
  options.each_batch = [&](const data::Batch& batch, std::span<const float> logits) {
    scores.add(logits, {static_cast<const float*>(batch.labels), logits.size()});
  };
  engine::Metrics metrics = *engine::evaluate(engine, dataset, options);
  check_scores(scores.logits(), labels, Split::kValidation);
  thresholds = find_thresholds(opened, scores, *goal);
  if (!thresholds.kept.empty()) {
    opened.warn(concat("no validation sample has ", join(thresholds.kept),
                       "; the threshold of this label stays a probability of 0.5"));
  }
  write_thresholds(opened, options.flip, thresholds);
  engine::MultiLabelAccumulator decided(labels, kAll, thresholds.logits);
  decided.add(scores.logits(), scores.targets());
  metrics.multi_label = decided.result();
  return metrics;
}

results::LabelThresholds read_thresholds(const OpenedModel& opened, bool flip) {
  results::LabelThresholds result;
  const auto stored = find_result<results::StoredThresholds>(opened, flip, results::kThresholdsFile,
                                                             kThresholdOption, opened.warn);
  if (!stored) {
    result.logits.resize(opened.classes.size());
    return result;
  }
  result.goal = stored->goal;
  std::vector<std::string> names;
  for (const results::StoredThresholds::Label& label : stored->labels) {
    names.push_back(label.label);
    result.logits.push_back(label.logit);
  }
  if (names != opened.classes) {
    const results::JsonSource source =
        find_source(opened, flip, results::kThresholdsFile, kThresholdOption);
    throw DataError(source.file, "is damaged: it has the labels ",
                    printable(data::list_classes(names)), ", but the run has ",
                    printable(data::list_classes(opened.classes)),
                    train::describe_class_difference(names, opened.classes), "; ", source.advice);
  }
  return result;
}

}  // namespace trainer::inference
