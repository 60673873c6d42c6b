#include "inference/decisions/scored_split.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "data/samples/splits.h"
#include "hooks/data_report.h"
#include "results/evaluation/find_class.h"

namespace trainer::inference {

void check_class_probabilities(const OpenedModel& opened, const engine::Engine& engine,
                               const data::Dataset& dataset, const std::string& option) {
  const LossKind loss = opened.config.model.loss;
  std::string reason = engine::why_no_class_probabilities(loss, engine.replica().outputs());
  if (reason.empty() && !engine::has_classes(dataset, loss)) {
    reason = "the labels of the data are not classes";
  }
  if (reason.empty()) return;
  results::reject_without_classes(option, concat("of ", printable(opened.path), ' ', reason));
}

std::function<void(const data::Batch&, std::span<const float>)> keep_scores(
    const data::Dataset& dataset, std::int64_t outputs, engine::LabelledLogits& scores) {
  scores.outputs = outputs;
  return [&dataset, &scores](const data::Batch& batch, std::span<const float> logits) {
    const std::vector<std::int32_t> labels = engine::label_indices(dataset, batch);
    scores.labels.insert(scores.labels.end(), labels.begin(), labels.end());
    scores.logits.insert(scores.logits.end(), logits.begin(), logits.end());
  };
}

void check_scores(std::span<const float> logits, std::int64_t outputs, Split split) {
  if (logits.empty()) {
    throw DataError(to_string(split), "has no samples, so that nothing can be measured on it");
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) continue;
    throw DataError(to_string(split), "the model's output for sample ",
                    i / static_cast<std::size_t>(outputs),
                    " is not a finite number, so that it has no probabilities; correct or "
                    "remove this sample, or use another checkpoint");
  }
}

void check_scores(const engine::LabelledLogits& scores, Split split) {
  check_scores(scores.logits, scores.outputs, split);
}

OpenedSplit open_validation(const OpenedModel& opened, const std::string& option) {
  try {
    return {Split::kValidation, open_split(opened, Split::kValidation)};
  } catch (const data::MissingSplit&) {
    throw ConfigError({}, option, " needs the validation split, and the data of ",
                      printable(opened.path),
                      " has none; give data.validation_split or data.validation.path "
                      "when training, or name one with --set data.validation.path=PLACE");
  }
}

engine::LabelledLogits score_validation(const OpenedModel& opened, engine::Engine& engine,
                                        engine::EvaluateOptions options,
                                        const OpenedSplit& validation) {
  opened.warn(hooks::left_out(validation.files(), validation.split));
  engine::LabelledLogits scores;
  const data::Dataset& dataset = validation.dataset();
  options.each_batch = keep_scores(dataset, engine.replica().outputs(), scores);
  engine::evaluate(engine, dataset, options);
  check_scores(scores, Split::kValidation);
  return scores;
}

}  // namespace trainer::inference
