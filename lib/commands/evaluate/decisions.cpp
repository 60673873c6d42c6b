#include "commands/evaluate/decisions.h"

#include <utility>

#include "commands/evaluate/calibrate.h"
#include "commands/evaluate/curves.h"
#include "commands/evaluate/operate.h"
#include "commands/evaluate/positive_class.h"
#include "commands/evaluate/scored_split.h"

namespace trainer::commands {

std::string DecisionOptions::first() const {
  if (calibrate) return "--calibrate";
  if (curves) return "--curves";
  return operating_point.empty() ? "" : "--operating-point";
}

Decisions::Decisions(DecisionOptions options, const OpenedModel& opened, engine::Replicas& engine,
                     engine::EvaluateOptions evaluation, Split split, const data::Dataset& dataset)
    : options_(std::move(options)),
      opened_(opened),
      engine_(engine),
      evaluation_(std::move(evaluation)),
      split_(split),
      dataset_(dataset) {
  if (options_.first().empty()) return;
  check_class_probabilities(opened_, engine_, dataset_, options_.first());
  const bool has_point = !options_.operating_point.empty();
  if (has_point) read_operating_criterion(options_.operating_point);
  if (has_point || !options_.positive_class.empty()) {
    find_positive_class(opened_.classes, options_.positive_class);
  }
}

engine::EvaluateOptions Decisions::evaluate_options() {
  engine::EvaluateOptions options = evaluation_;
  if (!options_.first().empty()) {
    options.each_batch = keep_scores(dataset_, engine_.outputs(), scores_);
  }
  return options;
}

void Decisions::print(const DecisionOutput& output) {
  if (options_.first().empty()) return;
  check_scores(scores_, split_);
  if (options_.calibrate) calibrate(output);
  if (options_.curves) draw_curves(output);
  if (!options_.operating_point.empty()) find_operating_point(output);
}

const engine::LabelledLogits& Decisions::find_validation_scores(const char* option) {
  if (split_ == Split::kValidation) return scores_;
  if (!validation_) validation_ = score_validation(opened_, engine_, evaluation_, option);
  return *validation_;
}

void Decisions::calibrate(const DecisionOutput& output) {
  const CalibrationReport report =
      commands::calibrate(find_validation_scores("--calibrate"), split_, scores_);
  const std::string stored = store_calibration(opened_, evaluation_.flip, report);
  if (output.json) return print_calibration_json(report, output.run, stored, output.out);
  output.out << (output.quiet ? "" : "\n");
  print_calibration(report, stored, output.quiet, output.out);
}

void Decisions::draw_curves(const DecisionOutput& output) {
  const std::vector<std::string>& classes = opened_.classes;
  const bool is_of_all = classes.size() != 2 && options_.positive_class.empty();
  const std::int64_t positive =
      is_of_all ? -1 : find_positive_class(classes, options_.positive_class);
  const CurvesReport report = compute_curves(scores_, to_string(split_), classes, positive);
  const std::string stored = store_curves(opened_, evaluation_.flip, report);
  if (output.json) return print_curves_json(report, output.run, stored, output.out);
  output.out << (output.quiet ? "" : "\n");
  print_curves(report, stored, output.out);
}

void Decisions::find_operating_point(const DecisionOutput& output) {
  const std::vector<std::string>& classes = opened_.classes;
  const std::int64_t positive = find_positive_class(classes, options_.positive_class);
  const OperatingReport report =
      find_operating_report(options_.operating_point, positive, classes.at(positive),
                            find_validation_scores("--operating-point"), split_, scores_);
  const std::string stored = store_operating_point(opened_, evaluation_.flip, report);
  if (output.json) return print_operating_point_json(report, output.run, stored, output.out);
  output.out << (output.quiet ? "" : "\n");
  print_operating_point(report, stored, output.out);
}

}  // namespace trainer::commands
