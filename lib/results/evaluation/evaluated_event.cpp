#include "results/evaluation/evaluated_event.h"

#include "results/evaluation/find_class.h"

namespace trainer::results {

void fields(FieldVisitor& v, NamedClass& row) {
  v("class", row.name, "The name of the class.");
  v("precision", row.scores.precision, kShare, "Samples of the class among those predicted so.");
  v("recall", row.scores.recall, kShare, "Samples of the class that are predicted so.");
  v("f1", row.scores.f1, kShare, "The harmonic mean of precision and recall.");
  v("support", row.scores.support, kSamples, "Samples of the class.");
}

void fields(FieldVisitor& v, NamedLabel& label) {
  v("label", label.name, "The name of the label.");
  v("threshold", label.threshold, kShare, "The probability above which it is predicted.");
  v.derived("precision", label.result.precision(), kShare,
            "Samples with the label among those predicted so.");
  v.derived("recall", label.result.recall(), kShare, "Samples with the label predicted so.");
  v.derived("f1", label.result.f1(), kShare, "The harmonic mean of precision and recall.");
  fields(v, label.result);
}

EvaluatedEvent make_event(const EvaluationReport& report) {
  const engine::Metrics& metrics = report.metrics;
  EvaluatedEvent event;
  event.run = report.run;
  event.step = report.step;
  event.split = report.split;
  event.loss = metrics.loss;
  event.accuracy = metrics.accuracy;
  event.accuracy_low = metrics.accuracy_interval.low;
  event.accuracy_high = metrics.accuracy_interval.high;
  event.count = metrics.count;
  event.checkpoint = to_string(report.checkpoint);
  event.further = find_further_metrics(metrics);
  const std::vector<engine::LabelResult>& labels = metrics.multi_label.labels;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    event.per_label.push_back({class_name(report.classes, static_cast<std::int64_t>(i)),
                               threshold_probability(report.thresholds, i), labels[i]});
  }
  if (!labels.empty()) {
    event.thresholds = report.thresholds.goal;
    return event;
  }
  event.per_class.emplace();
  const std::vector<engine::ClassScores> scores = metrics.per_class();
  for (std::int64_t c = 0; c < metrics.classes; ++c) {
    event.per_class->push_back({class_name(report.classes, c), scores[c]});
  }
  event.confusion = count_confusions(metrics.confusion);
  return event;
}

void fields(FieldVisitor& v, EvaluatedEvent& event) {
  v.event("evaluated");
  v("run", event.run, "The run or the checkpoint.");
  v("step", event.step, kSteps, "The step of the checkpoint.");
  v("split", event.split, "The evaluated split.");
  v("loss", event.loss, "Mean loss of the samples.");
  v("accuracy", event.accuracy, kShare, "Samples whose class is predicted right.");
  v("accuracy_low", event.accuracy_low, kShare,
    "Lower end of the 95 % interval of the accuracy (Wilson).");
  v("accuracy_high", event.accuracy_high, kShare,
    "Upper end of the 95 % interval of the accuracy (Wilson).");
  v("count", event.count, kSamples, "Samples of the split.");
  v.when_present("checkpoint", event.checkpoint, "The checkpoint that was asked for.");
  fields(v, event.further);
  v.when_present("thresholds", event.thresholds,
                 "The goal by which the thresholds of the labels were found.");
  v.when_present("per_label", event.per_label, "Results of each label.");
  v.when_present("per_class", event.per_class, "Scores of each class.");
  fields(v, event.confusion);
}

}  // namespace trainer::results
