#include "results/evaluation/class_tables.h"

#include <cmath>

#include "base/error.h"
#include "base/numbers/statistics.h"
#include "results/evaluation/find_class.h"

namespace trainer::results {

std::string describe_class_means(const engine::ClassMeans& means, double auc) {
  return concat("F1 macro ", fixed(means.f1_macro, 4), ", weighted ", fixed(means.f1_weighted, 4),
                "; balanced accuracy ", percent(means.balanced_accuracy),
                std::isnan(auc) ? "" : concat("; AUC ", fixed(auc, 4)));
}

Table class_table(std::span<const engine::ClassScores> scores,
                  const std::vector<std::string>& classes) {
  Table table({"class", "precision", "recall", "f1", "support"}, NumbersFrom{1},
              "Precision, recall and F1 of every class");
  for (std::size_t i = 0; i < scores.size(); ++i) {
    table.add({class_name(classes, i), fixed(scores[i].precision, 4), fixed(scores[i].recall, 4),
               fixed(scores[i].f1, 4), std::to_string(scores[i].support)});
  }
  return table;
}

Table mistakes_table(std::vector<engine::ConfusionCell> mistakes,
                     std::span<const engine::ClassScores> scores,
                     const std::vector<std::string>& classes) {
  constexpr std::size_t kMaxRows = 20;
  engine::keep_largest_confusions(mistakes, kMaxRows);
  Table table({"true", "predicted", "samples", "of the class"}, NumbersFrom{2},
              "Most frequent mistakes");
  for (const engine::ConfusionCell& cell : mistakes) {
    const auto support = static_cast<double>(scores[cell.actual].support);
    table.add({class_name(classes, cell.actual), class_name(classes, cell.predicted),
               std::to_string(cell.count), percent(static_cast<double>(cell.count) / support)});
  }
  return table;
}

std::string describe_label_means(const engine::MultiLabelMetrics& metrics) {
  return concat("F1 macro ", fixed_or_dash(metrics.f1_macro(), 4), ", micro ",
                fixed_or_dash(metrics.f1_micro(), 4), "; AUC ", fixed_or_dash(metrics.auc(), 4),
                "; average precision ", fixed_or_dash(metrics.average_precision(), 4));
}

double threshold_probability(const LabelThresholds& thresholds, std::size_t label) {
  return label < thresholds.logits.size() ? sigmoid(thresholds.logits[label]) : 0.5;
}

Table label_table(const engine::MultiLabelMetrics& metrics, const LabelThresholds& thresholds,
                  const std::vector<std::string>& classes) {
  Table table({"label", "AUC", "average precision", "threshold", "precision", "recall", "f1"},
              NumbersFrom{1}, "Metrics of every label");
  for (std::size_t i = 0; i < metrics.labels.size(); ++i) {
    const engine::LabelResult& label = metrics.labels[i];
    table.add({class_name(classes, i), fixed_or_dash(label.auc, 4),
               fixed_or_dash(label.average_precision, 4),
               fixed(threshold_probability(thresholds, i), 4), fixed(label.precision(), 4),
               fixed(label.recall(), 4), fixed(label.f1(), 4)});
  }
  return table;
}

Table label_counts_table(const engine::MultiLabelMetrics& metrics,
                         const std::vector<std::string>& classes) {
  Table table({"label", "with, predicted", "with, not predicted", "without, predicted",
               "without, not predicted"},
              NumbersFrom{1}, "Images with and without each label");
  for (std::size_t i = 0; i < metrics.labels.size(); ++i) {
    const engine::LabelResult& label = metrics.labels[i];
    table.add({class_name(classes, i), std::to_string(label.true_positives),
               std::to_string(label.positives - label.true_positives),
               std::to_string(label.false_positives),
               std::to_string(label.negatives - label.false_positives)});
  }
  return table;
}

}  // namespace trainer::results
