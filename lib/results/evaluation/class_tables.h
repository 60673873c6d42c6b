// The tables of classes and labels that `evaluate` prints and that pages show. A class without a
// name has its index instead.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/metrics/metrics.h"
#include "results/decisions/label_thresholds.h"
#include "results/document/document.h"

namespace trainer::results {

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
