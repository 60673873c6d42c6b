#include "results/evaluation/evaluation_report.h"

#include "base/error.h"
#include "results/evaluation/class_tables.h"
#include "results/evaluation/find_class.h"

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

}  // namespace trainer::results
