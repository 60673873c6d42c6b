#include "commands/compare/predictions.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/numbers/seconds.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "inference/predict/predict.h"
#include "results/read_json.h"
#include "results/run_files/statistics.h"

namespace trainer::commands {
namespace {

RunPredictions predict_split(const inference::OpenedModel& opened, double seconds) {
  if (opened.classes.empty()) return {std::nullopt, "its model has no classes"};
  const auto inputs = inference::open_prediction_inputs(opened, {}, {}, false);
  const inference::PredictionInput& input = inputs.front();
  if (!input.dataset().spec().label_is_index()) {
    return {std::nullopt, "its images do not have one class each"};
  }
  const auto engine = inference::make_engine(opened, inputs);
  const auto name = [&](std::int64_t index) { return opened.classes.at(index); };
  Predictions predictions;
  std::int64_t seen = 0;
  const auto each = [&](const results::Prediction& prediction) {
    ++seen;
    if (!prediction.error.empty() || !prediction.label) return;
    const std::string file = input.one_per_file ? input.name_of(prediction.index) : "";
    predictions[{file, prediction.index}] = {name(prediction.predicted), name(*prediction.label)};
  };
  const auto start = std::chrono::steady_clock::now();
  inference::predict(*engine, input, {opened.config.model.loss}, each,
                     [&] { return seconds_since(start) >= seconds; });
  if (seen < input.dataset().size()) {
    return {std::nullopt,
            concat("its ", input.dataset().size(), " images took longer than --seconds ", seconds)};
  }
  return {std::move(predictions), ""};
}

}  // namespace

std::optional<Predictions> read_predictions(const Path& run) {
  const Path file = run / "predictions.jsonl";
  if (!std::filesystem::exists(file)) return std::nullopt;
  Predictions predictions;
  std::int64_t number = 0;
  for (const std::string& line : split_text(read_text_file(file), '\n')) {
    ++number;
    if (line.empty()) continue;
    try {
      const auto read =
          results::from_json<results::PredictionLine>(nlohmann::ordered_json::parse(line), {});
      predictions[{read.file.value_or(""), read.index}] = {read.predicted.value(),
                                                           read.label.value()};
    } catch (const std::exception&) {
      throw DataError(
          concat(file.string(), ":", number),
          "is not a prediction of a labelled sample; write the file with: trainer predict ",
          shell_word(run.string()), " --json > ", shell_word(file.string()));
    }
  }
  return predictions;
}

std::optional<PairedResult> compare_predictions(const Predictions& first,
                                                const Predictions& second) {
  PairedResult result;
  const bool alike = std::equal(first.begin(), first.end(), second.begin(), second.end(),
                                [](const auto& a, const auto& b) {
                                  return a.first == b.first && a.second.label == b.second.label;
                                });
  if (!alike || first.empty()) return std::nullopt;
  for (const auto& [sample, one] : first) {
    const bool other = second.at(sample).is_right();
    std::int64_t& count = one.is_right() ? (other ? result.both_right : result.only_first)
                                         : (other ? result.only_second : result.both_wrong);
    ++count;
  }
  result.probability = results::mcnemar(result.only_first, result.only_second);
  return result;
}

RunPredictions predict_run(const Path& run, results::CheckpointChoice checkpoint, double seconds,
                           const inference::OpenOptions& options) {
  const bool is_last = checkpoint == results::CheckpointChoice::kLast;
  if (!is_last) {
    if (std::optional<Predictions> stored = read_predictions(run)) return {std::move(stored), ""};
  }
  try {
    const auto choice =
        is_last ? results::CheckpointChoice::kLast : results::CheckpointChoice::kDefault;
    return predict_split(inference::open_trained(run.string(), choice, options), seconds);
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace trainer::commands
