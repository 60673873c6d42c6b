#include "results/evaluation/evaluation_report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "results/evaluation/find_class.h"
#include "results/evaluation/metrics_json.h"

namespace trainer::results {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kConfusions = 20;

// "939", or "939 (the best checkpoint)".
std::string step_text(const EvaluationReport& report) {
  const bool is_best = report.checkpoint == CheckpointChoice::kBest;
  return concat(report.step, is_best ? " (the best checkpoint)" : "");
}

void print_classes(const EvaluationReport& report, std::ostream& out) {
  Table table({"class", "precision", "recall", "f1", "support"}, {1, 2, 3, 4});
  const auto rows = report.metrics.per_class();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const engine::ClassScores& row = rows[i];
    table.add({class_name(report.classes, i), fixed(row.precision, 4), fixed(row.recall, 4),
               fixed(row.f1, 4), std::to_string(row.support)});
  }
  out << '\n';
  table.print(out);
}

// Returns the probability above which a label is predicted.
double threshold(const EvaluationReport& report, std::size_t label) {
  const std::vector<double>& logits = report.thresholds.logits;
  return label < logits.size() ? sigmoid(logits[label]) : 0.5;
}

// Prints the confusion matrix of each label in a line.
void print_label_counts(const EvaluationReport& report, std::ostream& out) {
  Table table({"label", "with, predicted", "with, not predicted", "without, predicted",
               "without, not predicted"},
              {1, 2, 3, 4});
  const std::vector<engine::LabelResult>& labels = report.metrics.multi_label.labels;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    table.add({class_name(report.classes, i), std::to_string(labels[i].true_positives),
               std::to_string(labels[i].positives - labels[i].true_positives),
               std::to_string(labels[i].false_positives),
               std::to_string(labels[i].negatives - labels[i].false_positives)});
  }
  out << '\n';
  table.print(out);
}

// Prints the metrics of several labels per sample, and a table of the labels.
void print_labels(const EvaluationReport& report, bool brief, std::ostream& out) {
  const engine::MultiLabelMetrics& metrics = report.metrics.multi_label;
  out << ", subset accuracy " << percent(metrics.subset_accuracy()) << " (" << metrics.exact
      << " of " << metrics.samples << "), Hamming loss " << fixed_or_dash(metrics.hamming_loss(), 4)
      << ", step " << step_text(report) << '\n';
  if (brief) return;
  out << "F1 macro " << fixed_or_dash(metrics.f1_macro(), 4) << ", micro "
      << fixed_or_dash(metrics.f1_micro(), 4) << "; AUC " << fixed_or_dash(metrics.auc(), 4)
      << "; average precision " << fixed_or_dash(metrics.average_precision(), 4) << '\n';
  if (!report.thresholds.goal.empty()) {
    out << "thresholds by " << report.thresholds.goal << " on validation\n";
  }
  Table table({"label", "AUC", "average precision", "threshold", "precision", "recall", "f1"},
              {1, 2, 3, 4, 5, 6});
  for (std::size_t i = 0; i < metrics.labels.size(); ++i) {
    const engine::LabelResult& label = metrics.labels[i];
    table.add({class_name(report.classes, i), fixed_or_dash(label.auc, 4),
               fixed_or_dash(label.average_precision, 4), fixed(threshold(report, i), 4),
               fixed(label.precision(), 4), fixed(label.recall(), 4), fixed(label.f1(), 4)});
  }
  out << '\n';
  table.print(out);
  print_label_counts(report, out);
}

Json named_labels_json(const EvaluationReport& report) {
  Json labels = labels_json(report.metrics.multi_label);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const engine::LabelResult& label = report.metrics.multi_label.labels[i];
    Json named{{"label", class_name(report.classes, i)},
               {"threshold", threshold(report, i)},
               {"precision", label.precision()},
               {"recall", label.recall()},
               {"f1", label.f1()}};
    named.update(labels[i]);
    labels[i] = std::move(named);
  }
  return labels;
}

void print_means(const engine::Metrics& metrics, std::ostream& out) {
  const engine::Metrics::Means means = metrics.class_means();
  out << "F1 macro " << fixed(means.f1_macro, 4) << ", weighted " << fixed(means.f1_weighted, 4)
      << "; balanced accuracy " << percent(means.balanced_accuracy);
  if (!std::isnan(metrics.auc)) out << "; AUC " << fixed(metrics.auc, 4);
  out << '\n';
}

void print_worst(const EvaluationReport& report, std::ostream& out) {
  const engine::Metrics& metrics = report.metrics;
  std::vector<engine::ConfusionCell> cells = metrics.confusion.cells();
  engine::keep_largest_confusions(cells, kConfusions);
  const auto per_class = metrics.per_class();
  Table table({"true", "predicted", "samples", "of the class"}, {2, 3});
  for (const engine::ConfusionCell& cell : cells) {
    const auto support = static_cast<double>(per_class[cell.actual].support);
    table.add({class_name(report.classes, cell.actual), class_name(report.classes, cell.predicted),
               std::to_string(cell.count), percent(static_cast<double>(cell.count) / support)});
  }
  out << "\nmost frequent confusions\n";
  table.print(out);
}

}  // namespace

void print_confusion(const engine::Confusion& confusion, const std::vector<std::string>& classes,
                     const std::string& corner, std::ostream& out) {
  std::vector<std::string> header{corner};
  std::vector<std::size_t> right;
  for (std::int64_t c = 0; c < confusion.classes(); ++c) {
    right.push_back(header.size());
    header.push_back(class_name(classes, c));
  }
  Table table(std::move(header), right);
  for (std::int64_t r = 0; r < confusion.classes(); ++r) {
    std::vector<std::string> row{class_name(classes, r)};
    for (std::int64_t c = 0; c < confusion.classes(); ++c) {
      row.push_back(std::to_string(confusion.at(r, c)));
    }
    table.add(std::move(row));
  }
  out << '\n';
  table.print(out);
}

void print_report(const EvaluationReport& report, bool brief, std::ostream& out) {
  const engine::Metrics& metrics = report.metrics;
  out << to_string(report.split) << ": loss " << fixed(metrics.loss, 4);
  if (!metrics.multi_label.empty()) {
    print_labels(report, brief, out);
    return;
  }
  if (metrics.classes == 0) {
    out << " (" << metrics.count << " samples), step " << step_text(report) << '\n';
    return;
  }
  out << ", accuracy " << percent(metrics.accuracy) << " (95 % interval "
      << percent(metrics.accuracy_interval.low) << " to " << percent(metrics.accuracy_interval.high)
      << ", " << metrics.correct << " of " << metrics.count << ")";
  if (metrics.top_k > 0) out << ", top " << metrics.top_k << ' ' << percent(metrics.top_k_accuracy);
  out << ", step " << step_text(report) << '\n';
  if (brief) return;
  print_means(metrics, out);
  print_classes(report, out);
  if (metrics.classes <= kMaxPrintedMatrix) {
    print_confusion(metrics.confusion, report.classes, "true \\ predicted", out);
  } else {
    print_worst(report, out);
  }
}

void print_report_json(const EvaluationReport& report, std::ostream& out) {
  const engine::Metrics& metrics = report.metrics;
  Json json = {{"event", "evaluated"},
               {"run", report.run},
               {"step", report.step},
               {"split", to_string(report.split)},
               {"loss", metrics.loss},
               {"accuracy", metrics.accuracy},
               {"accuracy_low", metrics.accuracy_interval.low},
               {"accuracy_high", metrics.accuracy_interval.high},
               {"count", metrics.count}};
  if (const std::string checkpoint = to_string(report.checkpoint); !checkpoint.empty()) {
    json["checkpoint"] = checkpoint;
  }
  if (metrics.top_k > 0) {
    json["top_k"] = metrics.top_k;
    json["top_k_accuracy"] = metrics.top_k_accuracy;
  }
  for (const auto& [key, value] : engine::named_metrics(metrics)) {
    if (!json.contains(key)) json[key] = value;
  }
  if (!metrics.multi_label.empty()) {
    if (!report.thresholds.goal.empty()) json["thresholds"] = report.thresholds.goal;
    json["per_label"] = named_labels_json(report);
    write_event(out, json);
    return;
  }
  Json classes = Json::array();
  const auto per_class = metrics.per_class();
  for (std::int64_t r = 0; r < metrics.classes; ++r) {
    const engine::ClassScores& row = per_class[r];
    classes.push_back({{"class", class_name(report.classes, r)},
                       {"precision", row.precision},
                       {"recall", row.recall},
                       {"f1", row.f1},
                       {"support", row.support}});
  }
  json["per_class"] = std::move(classes);
  add_confusion(json, metrics.confusion);
  write_event(out, json);
}

}  // namespace trainer::results
