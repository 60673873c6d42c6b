#include "results/evaluation/evaluation_report.h"

#include <cmath>

#include "base/error.h"
#include "base/numbers/statistics.h"
#include "results/evaluation/find_class.h"
#include "results/metrics.h"
#include "results/train_events.h"

namespace trainer::results {
namespace {

// "939", or "939 (the best checkpoint)".
std::string step_text(const EvaluationReport& report) {
  const bool is_best = report.checkpoint == CheckpointChoice::kBest;
  return concat(report.step, is_best ? " (the best checkpoint)" : "");
}

// Adds the metrics of several labels per sample, and the tables of the labels.
void add_labels(Document& document, const EvaluationReport& report) {
  const engine::MultiLabelMetrics& metrics = report.metrics.multi_label;
  document.add(Paragraph{describe_label_means(metrics)});
  if (!report.thresholds.goal.empty()) {
    document.add(Paragraph{"thresholds by " + report.thresholds.goal + " on validation"});
  }
  document.add(BlankLine{});
  document.add(label_table(metrics, report.thresholds, report.classes));
  document.add(BlankLine{});
  document.add(label_counts_table(metrics, report.classes));
}

// Adds the scores of the classes, and the matrix or the most frequent mistakes.
void add_classes(Document& document, const EvaluationReport& report) {
  const engine::Metrics& metrics = report.metrics;
  const std::vector<engine::ClassScores> scores = metrics.per_class();
  document.add(Paragraph{describe_class_means(metrics.class_means(), metrics.auc)});
  document.add(BlankLine{});
  document.add(class_table(scores, report.classes));
  if (metrics.classes <= kMaxPrintedMatrix) {
    document.add(BlankLine{});
    document.add(make_matrix(metrics.confusion, report.classes));
  } else {
    document.add(Heading{"most frequent confusions", Heading::Level::kPart});
    document.add(mistakes_table(metrics.confusion.cells(), scores, report.classes));
  }
}

// Returns the line of the metrics of all samples.
std::string describe_metrics(const EvaluationReport& report) {
  const engine::Metrics& metrics = report.metrics;
  const std::string loss = concat(to_string(report.split), ": loss ", fixed(metrics.loss, 4));
  const std::string step = ", step " + step_text(report);
  if (!metrics.multi_label.empty()) {
    const engine::MultiLabelMetrics& labels = metrics.multi_label;
    return concat(loss, ", subset accuracy ", percent(labels.subset_accuracy()), " (", labels.exact,
                  " of ", labels.samples, "), Hamming loss ",
                  fixed_or_dash(labels.hamming_loss(), 4), step);
  }
  if (metrics.classes == 0) return concat(loss, " (", metrics.count, " samples)", step);
  const engine::Interval& interval = metrics.accuracy_interval;
  return concat(
      loss, ", accuracy ", percent(metrics.accuracy), " (95 % interval ", percent(interval.low),
      " to ", percent(interval.high), ", ", metrics.correct, " of ", metrics.count, ")",
      metrics.top_k > 0 ? concat(", top ", metrics.top_k, ' ', percent(metrics.top_k_accuracy))
                        : "",
      step);
}

struct NamedClass {
  std::string name;
  engine::ClassScores scores;
};

void fields(FieldVisitor& v, NamedClass& row) {
  v("class", row.name, "The name of the class.");
  v("precision", row.scores.precision, kShare, "Samples of the class among those predicted so.");
  v("recall", row.scores.recall, kShare, "Samples of the class that are predicted so.");
  v("f1", row.scores.f1, kShare, "The harmonic mean of precision and recall.");
  v("support", row.scores.support, kSamples, "Samples of the class.");
}

struct NamedLabel {
  std::string name;
  double threshold = 0.5;  // the probability above which it is predicted
  engine::LabelResult result;
};

void fields(FieldVisitor& v, NamedLabel& label) {
  v("label", label.name, "The name of the label.");
  v("threshold", label.threshold, kShare, "The probability above which it is predicted.");
  v.derived("precision", label.result.precision(), kShare,
            "Samples with the label among those predicted so.");
  v.derived("recall", label.result.recall(), kShare, "Samples with the label predicted so.");
  v.derived("f1", label.result.f1(), kShare, "The harmonic mean of precision and recall.");
  results::fields(v, label.result);
}

}  // namespace

ConfusionMatrix make_matrix(const engine::Confusion& confusion,
                            const std::vector<std::string>& classes) {
  ConfusionMatrix matrix;
  for (std::int64_t r = 0; r < confusion.classes(); ++r) {
    matrix.classes.push_back(class_name(classes, r));
    for (std::int64_t c = 0; c < confusion.classes(); ++c) {
      matrix.counts.push_back(confusion.at(r, c));
    }
  }
  return matrix;
}

Document describe_evaluation(const EvaluationReport& report, bool brief) {
  Document document;
  document.add(Paragraph{describe_metrics(report)});
  if (brief) return document;
  if (!report.metrics.multi_label.empty()) {
    add_labels(document, report);
  } else if (report.metrics.classes > 0) {
    add_classes(document, report);
  }
  return document;
}

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

void fields(FieldVisitor& v, EvaluationReport& report) {
  engine::Metrics& metrics = report.metrics;
  const std::vector<engine::LabelResult>& labels = metrics.multi_label.labels;
  std::vector<NamedLabel> per_label;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    per_label.push_back({class_name(report.classes, static_cast<std::int64_t>(i)),
                         threshold_probability(report.thresholds, i), labels[i]});
  }
  std::optional<std::vector<NamedClass>> per_class;
  ConfusionCounts confusion;
  if (labels.empty()) {
    const std::vector<engine::ClassScores> scores = metrics.per_class();
    per_class.emplace();
    for (std::int64_t c = 0; c < metrics.classes; ++c) {
      per_class->push_back({class_name(report.classes, c), scores[c]});
    }
    confusion = count_confusions(metrics.confusion);
  }
  std::string checkpoint(to_string(report.checkpoint));
  std::string goal = labels.empty() ? "" : report.thresholds.goal;
  FurtherMetrics further = find_further_metrics(metrics);
  v.event("evaluated");
  v("run", report.run, "The run or the checkpoint.");
  v("step", report.step, kSteps, "The step of the checkpoint.");
  v("split", report.split, "The evaluated split.");
  v("loss", metrics.loss, "Mean loss of the samples.");
  v("accuracy", metrics.accuracy, kShare, "Samples whose class is predicted right.");
  v("accuracy_low", metrics.accuracy_interval.low, kShare,
    "Lower end of the 95 % interval of the accuracy (Wilson).");
  v("accuracy_high", metrics.accuracy_interval.high, kShare,
    "Upper end of the 95 % interval of the accuracy (Wilson).");
  v("count", metrics.count, kSamples, "Samples of the split.");
  v.when_present("checkpoint", checkpoint, "The checkpoint that was asked for.");
  fields(v, further);
  v.when_present("thresholds", goal, "The goal by which the thresholds of the labels were found.");
  v.when_present("per_label", per_label, "Results of each label.");
  v.when_present("per_class", per_class, "Scores of each class.");
  fields(v, confusion);
}

}  // namespace trainer::results
