// Compares several runs.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "commands/compare/predictions.h"
#include "commands/context/context.h"
#include "engine/metrics/metrics.h"
#include "results/field.h"
#include "results/run_files/run_files.h"

namespace trainer::commands {

struct Comparison {
  // A value of the config, or of what made the runs, that is not the same for all; "absent" where
  // a run does not have it.
  using Setting = std::pair<std::string, std::vector<std::string>>;  // key, values indexed by run
  // A metric at a step at which all runs have it.
  struct CurvePoint {
    std::int64_t step = 0;
    std::string metric;  // "train loss", "test accuracy"
    std::vector<double> values;
  };
  struct Result {
    std::optional<Split> split;  // nothing for a run that was not evaluated
    results::CheckpointChoice checkpoint =
        results::CheckpointChoice::kLast;  // the checkpoint of loss and accuracy
    double loss = 0, accuracy = 0;
    engine::Interval interval;  // Wilson's, 95 %
    double images_per_second = 0, total_seconds = 0, wall_seconds = 0;
    std::optional<double> computing_features_rate;  // images per second
    std::optional<double> cost, seconds_to_accuracy, cost_to_accuracy;
  };
  struct Pair {
    std::size_t first = 0, second = 0;  // indices of the runs
    PairedResult result;
  };
  std::vector<std::string> runs;  // the names that the user gave
  std::vector<Setting> settings;
  std::vector<CurvePoint> curve;  // sorted by metric, then by step
  std::vector<Result> results;    // indexed by run
  std::optional<double> wanted_accuracy;
  std::vector<Pair> pairs;  // runs with predictions for the same samples
  // The reasons for fewer pairs than runs would give, and for pairs of other checkpoints than those
  // of the results.
  std::vector<std::string> notes;
};
void fields(results::FieldVisitor& v, Comparison& comparison);

// Returns the values of the configs and of RunFiles::origin that differ, without places (run.dir,
// host).
std::vector<Comparison::Setting> differing_settings(const std::vector<results::RunFiles>& runs);

// Returns the predictions of the run in a folder: see predict_run().
using PredictRun = std::function<RunPredictions(const Path& run)>;
// Compares at least two runs, by the best checkpoint of each that has one if that is `preferred`.
Comparison compare(const std::vector<results::RunFiles>& runs, results::CheckpointChoice preferred,
                   std::optional<double> wanted_accuracy, const PredictRun& predict);

void print_comparison(const Comparison& comparison, std::ostream& out);

struct CompareArguments {
  std::vector<std::string> runs;
  std::optional<double> to_accuracy;
  double seconds = 60;  // to predict the images of a run
  bool last = false;
  bool json = false;
};
int execute(const CompareArguments& arguments, const Context& context);

struct DiffArguments {
  std::vector<std::string> runs;  // two
  bool json = false;
};
// Returns kExitCheck for runs that differ.
int execute(const DiffArguments& arguments, const Context& context);

}  // namespace trainer::commands
