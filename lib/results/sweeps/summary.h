// The summary of a sweep: one row per combination of values, over its seeds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "results/run_files/statistics.h"
#include "results/sweeps/point_state.h"

namespace trainer::results {

struct SummaryRow {
  std::vector<std::pair<std::string, std::string>> values;  // by key, without the seed
  std::int64_t runs = 0;                                    // that finished
  std::int64_t missing = 0;  // that failed, were stopped, or have not started
  // The members below are means over the runs, undefined without runs.
  std::int64_t replicas = 1, global_batch = 0;
  double images_per_second = 0;
  double samples = 0;        // the samples of all steps
  double total_seconds = 0;  // the time of all steps
  double wall_seconds = 0;
  double wait_share = 0;                       // share of the steps' time spent waiting for data
  bool has_cached_features = false;            // a run read features of frozen layers from a cache
  engine::StepTimes step_times;                // the mean over the runs that have them
  std::optional<double> all_reduce_share;      // the share of a step, not hidden; of several ranks
  std::optional<engine::Straggler> straggler;  // the straggler of all runs
  std::vector<std::string> ranks;              // the names of the ranks
  double peak_memory_bytes = 0;
  double loss = 0;
  // Student's interval over the seeds, or Wilson's of one run; empty where runs have no accuracy.
  std::optional<Estimate> accuracy;
  // Relative to the row with the fewest replicas and otherwise equal values; empty for that row.
  std::optional<double> speed_up, efficiency;
  std::optional<double> cost;
  std::optional<double> energy_joules, joules_per_image;        // set when all runs measured it
  std::optional<double> seconds_to_accuracy, cost_to_accuracy;  // set when all runs reach it
  std::string verdict;  // the limit of its speed, as measured, and why runs are missing
};

// The row that reaches the wanted accuracy for the least money, or in the least time where a row
// that reaches it has no price.
struct BestToAccuracy {
  std::size_t row = 0;
  bool by_cost = false;
};

struct Summary {
  std::string name;
  std::vector<std::string> keys;         // keys of the values, in their order
  std::vector<std::string> short_names;  // short forms of the keys
  std::vector<SummaryRow> rows;
  std::vector<PointState> points;
  CheckpointChoice checkpoint = CheckpointChoice::kBest;  // gives all accuracies and losses
  std::string scored;  // a sentence on the split and checkpoint of accuracy and loss; may be ""
  std::string cached;  // a sentence on the throughput with cached features; may be ""
  std::optional<double> wanted_accuracy;
  std::optional<BestToAccuracy> best_to_accuracy;  // empty if no row reaches it
};

// `preferred` names the checkpoint whose accuracy and loss the summary has. A run without a best
// checkpoint of the scored split has those of the last one.
Summary summarize(const SweepPlan& plan, std::vector<PointState> points,
                  std::optional<double> wanted_accuracy, CheckpointChoice preferred);

// The row's values as "gpus=2 batch_size=32".
std::string make_label(const Summary& summary, const SummaryRow& row);
std::string whole_percent(double share);  // "71 %"
// Returns the indices of the rows, the best first: by accuracy, of equal ones by loss. If no row
// has an accuracy, the loss alone decides. Rows without the number come last.
std::vector<std::size_t> rank_rows(const Summary& summary);
// Returns "Best: lr=0.1, accuracy 71.20 % (95 % interval 68.00 % to 74.20 %); this accuracy
// lies in the interval of 2 other combinations, too."; "" for fewer than two rows, or without a
// number to rank them by.
std::string best_sentence(const Summary& summary);
// Returns the metrics of a point by which the summary ranks it; nothing if it has not finished.
std::optional<ScoredResult> find_scored_result(const Summary& summary, const PointState& point);
// Returns the indices of the points, the best first, as rank_rows() does.
std::vector<std::size_t> rank_points(const Summary& summary);

// Returns a sentence on whether the wanted accuracy was reached; "" when none is wanted.
std::string accuracy_sentence(const Summary& summary);

}  // namespace trainer::results
