#include "inference/decisions/stored_decisions.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "inference/decisions/calibration_file.h"
#include "inference/decisions/operating_point_file.h"
#include "inference/decisions/stored_result.h"

namespace trainer::inference {

void use_temperature(const OpenedModel& opened, results::PredictOptions& options,
                     const std::function<void(const Notice&)>& warn) {
  options.temperature = find_temperature(opened, options.flip, warn);
  if (options.temperature == 1) return;
  warn(Notice::note(concat(opened.path,
                           ": probabilities are calibrated: logits are divided by the temperature ",
                           fixed(options.temperature, 4), " of ", results::kCalibrationFile)));
}

std::string use_operating_point(const OpenedModel& opened, results::PredictOptions& options,
                                const std::function<void(const Notice&)>& warn) {
  const auto point = find_operating_point(opened, options.flip, warn);
  if (!point) return "";
  if (point->costs) {
    options.costs = point->costs;
    warn(Notice::note(concat(opened.path, ": the class of the least expected cost is predicted, ",
                             "the operating point ", point->criterion, " of ",
                             results::kOperatingPointFile,
                             "; --default-threshold takes the likeliest class")));
    return point->criterion;
  }
  if (opened.classes.size() != 2) return "";
  options.threshold = results::DecisionThreshold{point->positive_class, point->log_odds};
  const std::string source =
      concat(", the operating point ", point->criterion, " of ", results::kOperatingPointFile,
             "; --default-threshold takes the likelier class");
  const double probability = sigmoid(point->log_odds / options.temperature);
  const std::string& name = opened.classes[point->positive_class];
  warn(Notice::note(
      concat(opened.path, ": ", printable(name),
             std::isinf(point->log_odds)
                 ? " is not predicted"
                 : concat(" is predicted from a probability of ", fixed(probability, 4), " on"),
             source)));
  return point->criterion;
}

void warn_of_abstention(const OpenedModel& opened, bool flip, double error,
                        const std::function<void(const Notice&)>& warn) {
  const auto ignore = [](const Notice&) {};
  const auto json =
      find_result(opened, flip, results::kAbstentionFile, concat("--abstain ", error), ignore);
  if (!json || json->value("allowed_error", nlohmann::ordered_json()) != error) return;
  repeat_contradiction(opened, results::kAbstentionFile, *json, warn);
}

void note_unused_results(const OpenedModel& opened,
                         const std::function<void(const Notice&)>& warn) {
  const std::optional<Path> run = find_run_folder(opened);
  if (!run) return;
  for (const char* name : {results::kCalibrationFile, results::kOperatingPointFile}) {
    if (!std::filesystem::exists(*run / name)) continue;
    warn(Notice::note(concat(printable(opened.path), ": ", name, " is not used by --ensemble")));
  }
}

}  // namespace trainer::inference
