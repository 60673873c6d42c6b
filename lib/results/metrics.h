// The metrics of an evaluation, as run.json, events and crossval.json have them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/split.h"
#include "engine/device_use.h"
#include "engine/metrics/confusion.h"
#include "engine/metrics/metrics.h"
#include "engine/metrics/multi_label.h"
#include "engine/step_times.h"
#include "results/field.h"

namespace trainer::results {

// The whole matrix, which a person may look at, is written for at most this many classes.
inline constexpr std::int64_t kMaxMatrixClasses = 256;

// A confusion matrix in a size that grows with the classes and not with their square: one member is
// set. `top` has at most 1000 cells off the diagonal, the largest counts first.
struct ConfusionCounts {
  std::optional<std::vector<std::vector<std::int64_t>>> matrix, top;
};
ConfusionCounts count_confusions(const engine::Confusion& confusion);
void fields(FieldVisitor& v, ConfusionCounts& counts);

// Numbers of samples by class, in place of a matrix of many classes.
struct ClassTotals {
  std::vector<std::int64_t> support, predicted, correct;
};
void fields(FieldVisitor& v, ClassTotals& totals);

void count_fields(FieldVisitor& v, engine::LabelResult& label);
void fields(FieldVisitor& v, engine::LabelResult& label);

// Means over the classes or labels; NaN for those that the samples do not have.
struct MetricMeans {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double f1_macro = kNone, f1_micro = kNone, f1_weighted = kNone, balanced_accuracy = kNone;
  double subset_accuracy = kNone, hamming_loss = kNone, auc = kNone, average_precision = kNone;
};
MetricMeans find_means(const engine::Metrics& metrics);
void fields(FieldVisitor& v, MetricMeans& means);

// The final metrics of a split in run.json.
struct SplitMetrics {
  double loss = 0, accuracy = 0;  // NaN where the run has none
  std::int64_t count = 0;
  std::optional<std::int64_t> known_samples, exact;  // set if samples have several labels
  MetricMeans means;                                 // set if samples have several labels
  std::vector<engine::LabelResult> labels;
  // Set if samples have classes.
  std::optional<std::int64_t> correct;
  std::optional<double> accuracy_low, accuracy_high;
  std::optional<ClassTotals> class_counts;
  ConfusionCounts confusion;
};
SplitMetrics make_split_metrics(const engine::Metrics& metrics);
void fields(FieldVisitor& v, SplitMetrics& metrics);

// A row of metrics.csv and metrics.jsonl, with the columns that all runs have; NaN for what a row
// does not have.
struct MetricsRow {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::int64_t step = 0;
  double epoch = 0;
  Split split = Split::kTrain;
  double loss = kNone, accuracy = kNone, learning_rate = kNone;
  double images_per_second = kNone, wait_share = kNone;
  double seconds = kNone;  // the time of the steps since the row before, or of the evaluation
  double steps_per_second = kNone, top_k_accuracy = kNone;
  MetricMeans means =
      {};  // set for an evaluation; not among the keys, because they are later columns
};
void fields(FieldVisitor& v, MetricsRow& row);

// A row as the files have it. The columns are those of every run and those that its run has.
struct MetricsFileRow {
  MetricsRow row;
  engine::StepTimes times;  // empty for an evaluation
  std::optional<std::size_t> straggler;
  std::optional<double> staleness, gap_seconds;
  std::optional<std::int64_t> staleness_max;
  std::vector<engine::DeviceUse> devices;  // all that are measured, without values in an evaluation
  std::string time;                        // at which the row was written
  bool has_labels = false, has_ranks = false, has_servers = false, has_gaps = false;
  bool has_time = true;
};
void fields(FieldVisitor& v, MetricsFileRow& file_row);

inline constexpr char kStepKey[] = "step", kSplitKey[] = "split";
// The keys that decide whether a resumed run keeps a line of metrics.jsonl.
struct RowKey {
  std::int64_t step = 0;
  std::string split;
};
void fields(FieldVisitor& v, RowKey& key);

// The checkpoint that a run has kept as its best.
struct BestCheckpoint {
  std::string metric;  // run.best
  double value = 0, epoch = 0;
  std::int64_t step = 0;
  Path path;              // empty in run.json
  bool restored = false;  // the run ended with its parameters (train.early_stop.restore_best)
};
void fields(FieldVisitor& v, BestCheckpoint& best);

}  // namespace trainer::results
