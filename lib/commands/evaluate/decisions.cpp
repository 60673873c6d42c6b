#include "commands/evaluate/decisions.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "inference/decisions/scored_split.h"
#include "inference/decisions/stored_decisions.h"
#include "inference/decisions/stored_result.h"
#include "results/decisions/abstention_report.h"
#include "results/decisions/calibrate.h"
#include "results/decisions/cost_matrix.h"
#include "results/decisions/curves.h"
#include "results/decisions/operate.h"
#include "results/evaluation/find_class.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

// Points of a curve.
constexpr std::size_t kMaxStoredPoints = 1000;

// Returns the first option that asks for something; "" if none does.
std::string first_option(const results::DecisionOptions& options) {
  if (options.calibrate) return "--calibrate";
  if (options.curves) return "--curves";
  if (!options.operating_point.empty()) return "--operating-point";
  return options.abstain ? "--abstain" : "";
}

}  // namespace

Decisions::Decisions(results::DecisionOptions options, const inference::OpenedModel& opened,
                     engine::Engine& engine, engine::EvaluateOptions evaluation, Split split,
                     const data::Dataset& dataset)
    : options_(std::move(options)),
      opened_(opened),
      engine_(engine),
      evaluation_(std::move(evaluation)),
      split_(split),
      dataset_(dataset) {
  if (first_option(options_).empty()) return;
  inference::check_class_probabilities(opened_, engine_, dataset_, first_option(options_));
  check_operating_point();
  if (split_ != Split::kValidation && !first_fitted().empty()) {
    validation_split_ = inference::open_validation(opened_, first_fitted());
  }
}

std::string Decisions::first_fitted() const {
  if (options_.calibrate) return "--calibrate";
  if (!options_.operating_point.empty() && !costs_) return "--operating-point";
  return options_.abstain ? "--abstain" : "";
}

void Decisions::check_operating_point() {
  const std::string& criterion = options_.operating_point;
  const std::string file = results::find_cost_file(criterion);
  if (!file.empty()) {
    costs_ = results::read_cost_matrix(file, opened_.classes);
    if (!options_.positive_class.empty() && !options_.curves) {
      throw ConfigError({}, "--positive-class has no meaning for --operating-point ",
                        printable(criterion), ", which has the costs of all classes; leave it out");
    }
  } else if (!criterion.empty()) {
    results::read_operating_criterion(criterion);
  }
  const bool has_threshold = !criterion.empty() && !costs_;
  if (has_threshold || !options_.positive_class.empty()) {
    results::find_positive_class(opened_.classes, options_.positive_class);
  }
}

engine::EvaluateOptions Decisions::evaluate_options() {
  engine::EvaluateOptions options = evaluation_;
  if (!first_option(options_).empty()) {
    options.each_batch = inference::keep_scores(dataset_, engine_.replica().outputs(), scores_);
  }
  return options;
}

void Decisions::print(const DecisionOutput& output) {
  if (first_option(options_).empty()) return;
  inference::check_scores(scores_, split_);
  if (options_.calibrate) calibrate(output);
  if (options_.curves) report_curves(output);
  if (costs_) {
    decide_by_costs(output);
  } else if (!options_.operating_point.empty()) {
    find_operating_point(output);
  }
  if (options_.abstain) abstain(output);
}

const engine::LabelledLogits& Decisions::find_validation_scores() {
  if (split_ == Split::kValidation) return scores_;
  if (!validation_) {
    validation_ = inference::score_validation(opened_, engine_, evaluation_, *validation_split_);
  }
  return *validation_;
}

// Stores the result in the file of the run, warns if the evaluated split contradicts it, and prints
// it: as a JSON line with this event, or as the document that `show` makes. `show` gets the end of
// the first line.
template <class Report, class Show>
void Decisions::store_and_print(const DecisionOutput& output, const char* event, const char* file,
                                const Report& report, const Show& show) const {
  const std::string stored = inference::store_result(opened_, evaluation_.flip, file, report);
  if (!report.contradiction.empty()) opened_.warn(concat(opened_.path, ": ", report.contradiction));
  print(output, event, report, stored, show);
}

template <class Report, class Show>
void Decisions::print(const DecisionOutput& output, const char* event, const Report& report,
                      const std::string& stored, const Show& show) const {
  if (output.json) {
    const auto file = stored.empty() ? std::nullopt : std::optional(stored);
    return results::print_json(results::ResultEvent<Report>{event, output.run, report, file},
                               output.out);
  }
  output.out << (output.quiet ? "" : "\n")
             << results::render_text(show(stored.empty() ? "" : "; stored in " + stored));
}

void Decisions::calibrate(const DecisionOutput& output) {
  const results::CalibrationReport report =
      results::calibrate(find_validation_scores(), split_, scores_);
  temperature_ = report.temperature;
  store_and_print(output, "calibrated", results::kCalibrationFile, report,
                  [&](const std::string& ending) {
                    return results::show_calibration(report, ending, output.quiet);
                  });
}

void Decisions::report_curves(const DecisionOutput& output) {
  const std::vector<std::string>& classes = opened_.classes;
  const std::int64_t positive = results::find_curve_class(classes, options_.positive_class);
  const results::CurvesReport report =
      results::compute_curves(scores_, to_string(split_), classes, positive);
  // The file has fewer points than the line of JSON, so that it does not grow with the samples.
  const std::string stored =
      inference::store_result(opened_, evaluation_.flip, results::kCurvesFile,
                              results::thin_curves(report, kMaxStoredPoints));
  print(output, "curves", report, stored,
        [&](const std::string& ending) { return results::show_curves(report, ending); });
}

void Decisions::find_operating_point(const DecisionOutput& output) {
  const std::vector<std::string>& classes = opened_.classes;
  const std::int64_t positive = results::find_positive_class(classes, options_.positive_class);
  const results::OperatingReport report = results::find_operating_report(
      options_.operating_point, positive, classes.at(positive),
      classes.size() == 2 ? choose_temperature() : 1, find_validation_scores(), split_, scores_);
  if (classes.size() == 2) threshold_ = results::DecisionThreshold{positive, report.log_odds};
  store_and_print(
      output, "operating_point", results::kOperatingPointFile, report,
      [&](const std::string& ending) { return results::show_operating_point(report, ending); });
}

void Decisions::decide_by_costs(const DecisionOutput& output) {
  const results::CostReport report =
      results::make_cost_report(options_.operating_point, *costs_, opened_.classes,
                                choose_temperature(), to_string(split_), scores_);
  store_and_print(
      output, "operating_point", results::kOperatingPointFile, report,
      [&](const std::string& ending) { return results::show_costs(report, ending, output.quiet); });
}

void Decisions::abstain(const DecisionOutput& output) {
  results::PredictOptions options;
  options.loss = evaluation_.loss;
  options.flip = evaluation_.flip;
  options.temperature = choose_temperature();
  options.costs = costs_;
  options.threshold = threshold_;
  std::string criterion = options_.operating_point;
  if (!costs_ && !threshold_) criterion = inference::use_operating_point(opened_, options);
  results::AbstentionReport report = results::make_abstention_report(
      *options_.abstain, options, find_validation_scores(), split_, scores_);
  if (!criterion.empty()) report.criterion = std::move(criterion);
  store_and_print(
      output, "abstention", results::kAbstentionFile, report,
      [&](const std::string& ending) { return results::show_abstention(report, ending); });
}

double Decisions::choose_temperature() {
  if (!temperature_) temperature_ = inference::find_temperature(opened_, evaluation_.flip);
  return *temperature_;
}

}  // namespace trainer::commands
