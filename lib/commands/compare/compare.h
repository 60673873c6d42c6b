// Compares several runs: their configs, curves and results, and by their predictions whether one is
// better.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "commands/context/context.h"
#include "engine/metrics/metrics.h"
#include "inference/open_model/open_model.h"
#include "results/field.h"
#include "results/run_files/run_files.h"

namespace trainer::commands {

struct StoredPrediction {
  std::string predicted, label;
  bool is_right() const { return predicted == label; }
};
// The keys are file and index.
using Predictions = std::map<std::pair<std::string, std::int64_t>, StoredPrediction>;

// <run>/predictions.jsonl, lines of `trainer predict RUN --json`; nothing when it is absent.
// Throws DataError when a line is not a prediction of a labelled sample.
std::optional<Predictions> read_predictions(const Path& run);

struct PairedResult {
  std::int64_t both_right = 0, only_first = 0, only_second = 0, both_wrong = 0;
  double probability = 1;  // the p-value of McNemar's exact test
};
// Returns nothing unless both predict the same samples with the same labels.
std::optional<PairedResult> compare_predictions(const Predictions& first,
                                                const Predictions& second);

struct RunPredictions {
  std::optional<Predictions> predictions;
  std::string reason;  // the reason why there are none
};

// Returns those of <run>/predictions.jsonl, or else predicts the split of open_split_or_default()
// by the checkpoint that `evaluate` takes; the likeliest class counts. The last checkpoint, if that
// is asked for, always predicts: stored predictions may be of the best one. There are none if this
// takes longer than `seconds`, the images have no class each, or the run cannot be opened. Throws
// DataError for a damaged predictions.jsonl.
RunPredictions predict_run(const Path& run, results::ScoredCheckpoint checkpoint, double seconds,
                           const inference::OpenOptions& options);

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
    results::ScoredCheckpoint checkpoint =
        results::ScoredCheckpoint::kLast;  // the checkpoint of loss and accuracy
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
Comparison compare(const std::vector<results::RunFiles>& runs, results::ScoredCheckpoint preferred,
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
