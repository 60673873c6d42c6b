// Reads the files of runs, to compare them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "base/split.h"
#include "engine/metrics/confusion.h"
#include "engine/metrics/multi_label.h"
#include "engine/step_times.h"
#include "results/run_files/checkpoint_choice.h"
#include "results/run_files/run_warnings.h"
#include "results/run_record.h"

namespace trainer::results {

// A row of ledger.csv: one step.
struct LedgerRow {
  std::int64_t step = 0, samples = 0;
  // These are the texts of the file; sample_ids and gradient_norm are "" if they are not known.
  std::string loss, learning_rate, sample_ids, gradient_norm;
  double seconds = 0, wait_seconds = 0;
};

// The final metrics of a split.
struct SplitResult {
  double loss = 0, accuracy = 0;  // NaN where the run has none
  std::int64_t count = 0;
  std::int64_t correct = 0;                  // means nothing without classes
  std::vector<engine::ClassCounts> classes;  // empty without classes
  // The cells off the diagonal, the largest counts first.
  std::vector<engine::ConfusionCell> confusions;
  engine::MultiLabelMetrics multi_label = {};  // empty unless samples have several labels
};

// The record of a run, whose texts can be printed, and its other files.
struct RunFiles : RunRecord {
  Path folder;
  std::map<Split, SplitResult, std::greater<>> results;  // set once finished
  // The origin of the run, by a name for the user: "program", "compiler", "libc", "host",
  // "processor", "device", "training data".
  std::vector<std::pair<std::string, std::string>> origin;
  std::string started;      // the first session's start, in UTC: "2026-11-27T00:06:12.250Z"; or ""
  std::string command;      // command of the first session; "" if unknown
  double wall_seconds = 0;  // the sum over all sessions
  std::int64_t peak_memory_bytes = 0;  // memory of the host, the largest of the sessions
  engine::StepTimes step_times;        // the sessions that have them; empty without such a session
  std::vector<std::string> ranks;      // names of the ranks of the last session
  // The rank that the others wait for, by the newest training row of the metrics.
  std::optional<std::int64_t> straggler;
  // The energy of the devices in all sessions, in total and per training image; nothing unless each
  // session measured it.
  std::optional<double> energy_joules, joules_per_image;
  // Measurements of its devices: (step, value) by column of metrics.csv, e.g.
  // "gpu0_utilization".
  std::map<std::string, std::vector<std::pair<double, double>>> devices;
  std::vector<std::pair<std::string, std::string>> config;  // every leaf, in the order of the file
  std::vector<MetricsRow> metrics;
  std::vector<LedgerRow> ledger;                   // empty with run.ledger: false
  std::map<std::int64_t, std::string> parameters;  // hashes by step
  std::vector<RunWarning> warnings;                // read_run_warnings()
};

// The rows of ledger.csv to read. The newest are some hundred, so that a look at a long run that
// trains takes no longer than one at a short run.
enum class LedgerRows { kAll, kNewest };
// Reads a run folder, also while the run trains. Throws DataError if the folder is not that of a
// run or a file of it is damaged.
RunFiles read_run(const Path& folder, LedgerRows rows = LedgerRows::kAll);
// Returns true if the folder holds a run that has ended by itself.
bool is_finished(const Path& folder);

// ---- What follows from the rows ----

// Sums over all steps: of the ledger, or without one of the training rows of the metrics.
struct StepTotals {
  double seconds = 0;
  double wait_seconds = 0;  // the part of `seconds` that was spent waiting for data
  double samples = 0;
};
StepTotals total_steps(const RunFiles& run);
// Returns the throughput of the steps with cached features, if a finished run had such steps, and
// otherwise the mean of all steps; 0 when there are none.
double images_per_second(const RunFiles& run);
// Returns test, or else validation: the split whose accuracy counts. Nothing without either.
std::optional<Split> scored_split(const RunFiles& run);
// The metrics by which runs are compared.
struct ScoredResult {
  Split split = Split::kTest;
  CheckpointChoice checkpoint = CheckpointChoice::kLast;  // kBest or kLast
  SplitResult metrics;  // the best checkpoint's are as in metrics.csv, without counts of classes
};
// Returns the metrics of scored_split(): with `preferred` kBest those of the best checkpoint, if
// the run has one of this split, and otherwise those of the last one. Nothing without the split.
std::optional<ScoredResult> find_scored_result(const RunFiles& run, CheckpointChoice preferred);
// Seconds of steps and evaluations up to the first evaluation of at least this accuracy.
std::optional<double> seconds_to_accuracy(const RunFiles& run, double accuracy);
// Returns the cost of `seconds`, or nothing without run.price_per_hour. Each replica is a device;
// all replicas on a CPU are one.
std::optional<double> cost(const RunFiles& run, double seconds);

}  // namespace trainer::results
