#include "inference/decisions/stored_decisions.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <variant>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "inference/decisions/stored_result.h"
#include "results/decisions/abstention_report.h"
#include "results/decisions/calibrate.h"

namespace trainer::inference {
namespace {

constexpr const char* kPointOption = "--operating-point CRITERION";

// Returns nothing if there is not a row of costs for each class.
std::optional<engine::CostMatrix> to_matrix(const std::vector<std::vector<double>>& rows,
                                            std::size_t classes) {
  engine::CostMatrix matrix{classes, {}};
  for (const std::vector<double>& row : rows) {
    if (row.size() != classes) return std::nullopt;
    matrix.costs.insert(matrix.costs.end(), row.begin(), row.end());
  }
  return rows.size() == classes ? std::optional(matrix) : std::nullopt;
}

}  // namespace

double find_temperature(const OpenedModel& opened, bool flip) {
  const auto report = find_result<results::CalibrationReport>(
      opened, flip, results::kCalibrationFile, "--calibrate", opened.warn);
  if (!report) return 1;
  repeat_contradiction(opened, results::kCalibrationFile, report->contradiction);
  return report->temperature;
}

std::optional<StoredOperatingPoint> find_operating_point(const OpenedModel& opened, bool flip) {
  const auto found = find_result<results::OperatingPoint>(
      opened, flip, results::kOperatingPointFile, kPointOption, opened.warn);
  if (!found) return std::nullopt;
  const std::size_t classes = opened.classes.size();
  const auto fail = [&](const char* key) {
    const results::JsonSource source =
        find_source(opened, flip, results::kOperatingPointFile, kPointOption);
    throw DataError(source.file, "is damaged: ", key, " does not fit the ", classes,
                    " classes of the model; ", source.advice);
  };
  StoredOperatingPoint point;
  std::string contradiction;
  if (const auto* report = std::get_if<results::CostReport>(&*found)) {
    point.criterion = printable(report->criterion);
    point.costs = to_matrix(report->costs, classes);
    if (!point.costs) fail("costs");
    contradiction = report->contradiction;
  } else {
    const auto& threshold = std::get<results::OperatingReport>(*found);
    point.criterion = printable(threshold.criterion);
    point.positive_class = threshold.positive_index;
    if (point.positive_class >= std::ssize(opened.classes)) fail("positive_index");
    point.log_odds = std::isnan(threshold.log_odds) ? std::numeric_limits<double>::infinity()
                                                    : threshold.log_odds;
    if (classes == 2) contradiction = threshold.contradiction;  // else it is not used
  }
  repeat_contradiction(opened, results::kOperatingPointFile, contradiction);
  return point;
}

void use_temperature(const OpenedModel& opened, results::PredictOptions& options) {
  options.temperature = find_temperature(opened, options.flip);
  if (options.temperature == 1) return;
  opened.warn(Notice::note(
      concat(opened.path, ": probabilities are calibrated: logits are divided by the temperature ",
             fixed(options.temperature, 4), " of ", results::kCalibrationFile)));
}

std::string use_operating_point(const OpenedModel& opened, results::PredictOptions& options) {
  const auto point = find_operating_point(opened, options.flip);
  if (!point) return "";
  if (point->costs) {
    options.costs = point->costs;
    opened.warn(Notice::note(
        concat(opened.path, ": the class of the least expected cost is predicted, ",
               "the operating point ", point->criterion, " of ", results::kOperatingPointFile,
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
  opened.warn(Notice::note(
      concat(opened.path, ": ", printable(name),
             std::isinf(point->log_odds)
                 ? " is not predicted"
                 : concat(" is predicted from a probability of ", fixed(probability, 4), " on"),
             source)));
  return point->criterion;
}

void warn_of_abstention(const OpenedModel& opened, bool flip, double error) {
  const auto ignore = [](const Notice&) {};
  const auto report = find_result<results::AbstentionReport>(opened, flip, results::kAbstentionFile,
                                                             concat("--abstain ", error), ignore);
  if (!report || report->allowed_error != error) return;
  repeat_contradiction(opened, results::kAbstentionFile, report->contradiction);
}

void warn_of_novelty(const OpenedModel& opened, const std::string& format) {
  const std::optional<Path> run = find_run_folder(opened);
  if (!run || !std::filesystem::exists(*run / results::kNoveltyFile)) return;
  opened.warn(concat(printable(opened.path), ": the ", format, " file gives a class for images of ",
                     "anything: it has no distance to the training images, by which predict finds ",
                     "those of none of the classes (", results::kNoveltyFile, ")"));
}

void note_unused_results(const OpenedModel& opened) {
  const std::optional<Path> run = find_run_folder(opened);
  if (!run) return;
  for (const char* name :
       {results::kCalibrationFile, results::kOperatingPointFile, results::kNoveltyFile}) {
    if (!std::filesystem::exists(*run / name)) continue;
    opened.warn(
        Notice::note(concat(printable(opened.path), ": ", name, " is not used by --ensemble")));
  }
}

}  // namespace trainer::inference
