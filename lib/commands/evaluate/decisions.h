// What `evaluate` computes from the scores of all samples beside the metrics: the calibration of
// probabilities, curves, the operating point and abstention.
#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "base/split.h"
#include "engine/evaluate.h"
#include "engine/metrics/calibration.h"
#include "engine/metrics/operating_point.h"
#include "inference/open_model/open_model.h"
#include "inference/open_model/run_archive.h"
#include "inference/predict/predict.h"
#include "results/decisions/decision_options.h"

namespace trainer::commands {

// The place and the form of printed results.
struct DecisionOutput {
  std::string run;  // the name of the model in JSON
  bool json = false;
  bool quiet = false;  // prints only lines of results
  std::ostream& out;
};

// Collects the scores of an evaluation, and prints and stores what the options ask for.
class Decisions {
 public:
  // The model, the engine and the data set must outlive it. `evaluation` are the options of the
  // evaluation, with which the validation split is evaluated where it is needed. Throws ConfigError
  // for options that this model cannot follow.
  Decisions(results::DecisionOptions options, const inference::OpenedModel& opened,
            engine::Engine& engine, engine::EvaluateOptions evaluation, Split split,
            const data::Dataset& dataset);

  // Returns the options of the evaluation, which collects the scores.
  engine::EvaluateOptions evaluate_options();
  // Call it after the evaluation. Stores the results in the run of the model, and prints them.
  // Throws DataError for scores that are not finite.
  void print(const DecisionOutput& output);

 private:
  // Checks the criterion and the positive class, and reads the costs.
  void check_operating_point();
  // Returns the first option that finds a number on the validation split; "" if none does.
  std::string first_fitted() const;
  // Evaluates the validation split when its scores are needed first.
  const engine::LabelledLogits& find_validation_scores();
  void calibrate(const DecisionOutput& output);
  void report_curves(const DecisionOutput& output);
  void find_operating_point(const DecisionOutput& output);
  void decide_by_costs(const DecisionOutput& output);
  void abstain(const DecisionOutput& output);
  template <class Report, class Show>
  void store_and_print(const DecisionOutput& output, const char* event, const char* file,
                       const Report& report, const Show& show) const;
  template <class Report, class Show>
  void print(const DecisionOutput& output, const char* event, const Report& report,
             const std::string& stored, const Show& show) const;
  // Returns the temperature that this command has found, or else that of the run.
  double choose_temperature();

  results::DecisionOptions options_;
  const inference::OpenedModel& opened_;
  engine::Engine& engine_;
  engine::EvaluateOptions evaluation_;
  Split split_;
  const data::Dataset& dataset_;
  engine::LabelledLogits scores_;  // scores of the evaluated split
  std::optional<inference::OpenedSplit>
      validation_split_;  // set if it is needed beside the evaluated split
  std::optional<engine::LabelledLogits> validation_;
  std::optional<engine::CostMatrix> costs_;  // the operating point's costs, in place of a threshold
  // Results that later options of the command use, also if no run stores them.
  std::optional<double> temperature_;
  std::optional<results::DecisionThreshold> threshold_;  // set only for two classes
};

}  // namespace trainer::commands
