// The metrics of a split as people read them, in texts and pages. A class without a name has its
// index instead.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/split.h"
#include "engine/metrics/metrics.h"
#include "results/decisions/label_thresholds.h"
#include "results/document/document.h"
#include "results/field.h"
#include "results/run_files/checkpoint_choice.h"

namespace trainer::results {

// An evaluation by `trainer evaluate`. The list of its keys is the line of `evaluate --json`.
struct EvaluationReport {
  std::string run;  // the user's name for it
  std::int64_t step = 0;
  CheckpointChoice checkpoint = CheckpointChoice::kDefault;
  Split split = Split::kTest;
  std::vector<std::string> classes;
  engine::Metrics metrics;
  LabelThresholds thresholds = {};  // set if samples have several labels
};
void fields(FieldVisitor& v, EvaluationReport& report);

// The classes of which a screen or a page shows a matrix.
inline constexpr std::int64_t kMaxPrintedMatrix = 20;

ConfusionMatrix make_matrix(const engine::Confusion& confusion,
                            const std::vector<std::string>& classes);

// Returns loss and, where samples have classes, accuracy with its interval, and unless `brief`:
// precision, recall and F1 of every class and the confusion matrix, of which only the most frequent
// confusions are shown when there are many classes. Of several labels per sample, returns their
// metrics, and unless `brief` a table of the labels.
Document describe_evaluation(const EvaluationReport& report, bool brief);

// "F1 macro 0.7179, weighted 0.7319; balanced accuracy 73.21 %", and the AUC unless it is NaN.
std::string describe_class_means(const engine::ClassMeans& means, double auc);
Table class_table(std::span<const engine::ClassScores> scores,
                  const std::vector<std::string>& classes);
// Returns the most frequent mistakes, each with its share of the true class.
Table mistakes_table(std::vector<engine::ConfusionCell> mistakes,
                     std::span<const engine::ClassScores> scores,
                     const std::vector<std::string>& classes);

std::string describe_label_means(const engine::MultiLabelMetrics& metrics);
// Labels without a threshold are predicted above a probability of 0.5.
double threshold_probability(const LabelThresholds& thresholds, std::size_t label);
Table label_table(const engine::MultiLabelMetrics& metrics, const LabelThresholds& thresholds,
                  const std::vector<std::string>& classes);
// Returns the confusion matrix of each label as a row.
Table label_counts_table(const engine::MultiLabelMetrics& metrics,
                         const std::vector<std::string>& classes);

}  // namespace trainer::results
