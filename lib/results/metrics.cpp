#include "results/metrics.h"

#include "base/error.h"
#include "results/rounded.h"

namespace trainer::results {

ConfusionCounts count_confusions(const engine::Confusion& confusion) {
  constexpr std::size_t kMaxTopConfusions = 1000;
  std::vector<engine::ConfusionCell> cells = confusion.cells();
  const std::size_t classes = confusion.classes();
  ConfusionCounts counts;
  if (confusion.classes() > kMaxMatrixClasses) {
    engine::keep_largest_confusions(cells, kMaxTopConfusions);
    counts.top.emplace();
    for (const engine::ConfusionCell& cell : cells) {
      counts.top->push_back({cell.actual, cell.predicted, cell.count});
    }
    return counts;
  }
  counts.matrix.emplace(classes, std::vector<std::int64_t>(classes));
  for (const engine::ConfusionCell& cell : cells) {
    (*counts.matrix)[cell.actual][cell.predicted] = cell.count;
  }
  return counts;
}

void fields(FieldVisitor& v, ConfusionCounts& counts) {
  v.when_present(
      "confusion", counts.matrix, kSamples,
      "A row per true class, with the samples of each predicted class. Left out for many classes.");
  v.when_present("top_confusions", counts.top, kSamples,
                 "In place of the matrix of many classes: lists of true class, predicted class and "
                 "samples, the largest counts first.");
}

void fields(FieldVisitor& v, ClassTotals& totals) {
  v("support", totals.support, kSamples, "Samples of each class.");
  v("predicted", totals.predicted, kSamples, "Samples that are predicted to be of each class.");
  v("correct", totals.correct, kSamples, "Samples of each class that are predicted right.");
}

void count_fields(FieldVisitor& v, engine::LabelResult& label) {
  v("positives", label.positives, kSamples, "Samples with the label.");
  v("negatives", label.negatives, kSamples, "Samples without the label.");
  v("true_positives", label.true_positives, kSamples, "Samples with the label that are predicted.");
  v("false_positives", label.false_positives, kSamples,
    "Samples without the label that are predicted to have it.");
}

void fields(FieldVisitor& v, engine::LabelResult& label) {
  count_fields(v, label);
  v.when_present("auc", label.auc, kShare, "Area under the ROC curve.");
  v.when_present("average_precision", label.average_precision, kShare,
                 "Area under the precision-recall curve.");
}

MetricMeans find_means(const engine::Metrics& metrics) {
  MetricMeans means;
  if (const engine::MultiLabelMetrics& labels = metrics.multi_label; !labels.empty()) {
    means.f1_macro = labels.f1_macro();
    means.f1_micro = labels.f1_micro();
    means.subset_accuracy = labels.subset_accuracy();
    means.hamming_loss = labels.hamming_loss();
    means.auc = labels.auc();
    means.average_precision = labels.average_precision();
  } else if (metrics.classes > 0) {
    const engine::ClassMeans classes = metrics.class_means();
    means.f1_macro = classes.f1_macro;
    means.f1_weighted = classes.f1_weighted;
    means.balanced_accuracy = classes.balanced_accuracy;
    means.auc = metrics.auc;
  }
  return means;
}

void fields(FieldVisitor& v, MetricMeans& means) {
  v.when_present("f1_macro", means.f1_macro, kShare, "Mean F1 of the classes or labels.");
  v.when_present("f1_micro", means.f1_micro, kShare, "F1 over all labels together.");
  v.when_present("f1_weighted", means.f1_weighted, kShare,
                 "Mean F1 of the classes, weighted by their samples.");
  v.when_present("balanced_accuracy", means.balanced_accuracy, kShare,
                 "Mean recall of the classes.");
  v.when_present("subset_accuracy", means.subset_accuracy, kShare,
                 "Samples whose known labels are all predicted right.");
  v.when_present("hamming_loss", means.hamming_loss, kShare,
                 "Known labels that are predicted wrong.");
  v.when_present("auc", means.auc, kShare,
                 "Area under the ROC curve: of the second of two classes, or the mean of the "
                 "labels.");
  v.when_present("average_precision", means.average_precision, kShare,
                 "Mean average precision of the labels.");
}

SplitMetrics make_split_metrics(const engine::Metrics& metrics) {
  SplitMetrics result;
  result.loss = metrics.loss;
  result.accuracy = metrics.accuracy;
  result.count = metrics.count;
  if (!metrics.multi_label.empty()) {
    result.means = find_means(metrics);
    result.known_samples = metrics.multi_label.samples;
    result.exact = metrics.multi_label.exact;
    result.labels = metrics.multi_label.labels;
  }
  if (metrics.classes == 0) return result;
  result.correct = metrics.correct;
  result.accuracy_low = metrics.accuracy_interval.low;
  result.accuracy_high = metrics.accuracy_interval.high;
  if (metrics.classes > kMaxMatrixClasses) {
    ClassTotals& totals = result.class_counts.emplace();
    for (const engine::ClassCounts& counts : metrics.confusion.class_counts()) {
      totals.support.push_back(counts.support);
      totals.predicted.push_back(counts.predicted);
      totals.correct.push_back(counts.correct);
    }
  }
  result.confusion = count_confusions(metrics.confusion);
  return result;
}

void fields(FieldVisitor& v, SplitMetrics& metrics) {
  v("loss", metrics.loss, "Mean loss of the samples.");
  v("accuracy", metrics.accuracy, kShare, "Samples whose class is predicted right.");
  v("count", metrics.count, kSamples, "Samples of the split.");
  fields(v, metrics.means);
  v.when_present("known_samples", metrics.known_samples, kSamples, "Samples with a known label.");
  v.when_present("exact", metrics.exact, kSamples,
                 "Samples whose known labels are all predicted right.");
  v.when_present("labels", metrics.labels, "Results of each label, in label order.");
  v.when_present("correct", metrics.correct, kSamples, "Samples that are predicted right.");
  v.when_present("accuracy_low", metrics.accuracy_low, kShare,
                 "Lower end of the 95 % interval of the accuracy (Wilson).");
  v.when_present("accuracy_high", metrics.accuracy_high, kShare,
                 "Upper end of the 95 % interval of the accuracy (Wilson).");
  v.when_present("class_counts", metrics.class_counts,
                 "Samples by class, for more classes than the matrix is written for.");
  fields(v, metrics.confusion);
}

void fields(FieldVisitor& v, MetricsRow& row) {
  v("step", row.step, kSteps, "Steps done.");
  v("epoch", row.epoch, "epochs", "Epochs done.");
  v("split", row.split, "The split.");
  v("loss", row.loss, "Mean loss.");
  v("accuracy", row.accuracy, kShare, "Accuracy.");
  v("learning_rate", row.learning_rate, "Learning rate of the last step.");
  v("images_per_second", row.images_per_second, kImagesPerSecond, "Throughput.");
  v("wait_share", row.wait_share, kShare, "Share of the time spent waiting for data.");
  v("seconds", row.seconds, kSeconds, "Time since the row before, or of the evaluation.");
  v("steps_per_second", row.steps_per_second, {"steps/s", 0}, "Rate of the steps.");
  v("top_k_accuracy", row.top_k_accuracy, kShare, "Share of samples with their class among k.");
}

void fields(FieldVisitor& v, MetricsFileRow& file_row) {
  using Spread = engine::StepTimes::Spread;
  const engine::StepTimes& times = file_row.times;
  MetricMeans& means = file_row.row.means;
  const auto add_phase = [&](engine::StepPhase phase, const char* ending, double Spread::*value) {
    const double seconds = times.empty() ? MetricMeans::kNone : times.spread(phase).*value;
    v.derived(concat(engine::column_name(phase), ending).c_str(), rounded(seconds, 6), kSeconds,
              "Time of a phase of a step: the median, smallest or largest of the ranks.");
  };
  fields(v, file_row.row);
  for (const engine::StepPhase phase : engine::kAllStepPhases) {
    add_phase(phase, "", &Spread::median);
  }
  v("f1_macro", means.f1_macro, kShare, "Mean F1 of the classes or labels.");
  v("f1_weighted", means.f1_weighted, kShare, "Mean F1 of the classes, weighted by their samples.");
  v("balanced_accuracy", means.balanced_accuracy, kShare, "Mean recall of the classes.");
  v("auc", means.auc, kShare, "Area under the ROC curve.");
  if (file_row.has_labels) {
    v("f1_micro", means.f1_micro, kShare, "F1 over all labels together.");
    v("subset_accuracy", means.subset_accuracy, kShare, "Samples with all labels right.");
    v("hamming_loss", means.hamming_loss, kShare, "Known labels that are predicted wrong.");
    v("average_precision", means.average_precision, kShare, "Mean average precision.");
  }
  if (file_row.has_ranks) {
    for (const engine::StepPhase phase : engine::kAllStepPhases) {
      add_phase(phase, "_min", &Spread::min);
      add_phase(phase, "_max", &Spread::max);
    }
    v("straggler", file_row.straggler, "The rank whose own time is far above that of the others.");
  }
  if (file_row.has_servers) {
    v("staleness", file_row.staleness, "updates", "Mean staleness of the gradients.");
    v("staleness_max", file_row.staleness_max, "updates", "The largest staleness.");
  }
  if (file_row.has_gaps) {
    v("gap_seconds", file_row.gap_seconds, kSeconds, "Mean gap between steps on a device.");
  }
  for (const engine::DeviceUse& use : file_row.devices) {
    const auto add = [&](const char* name, std::optional<double> value) {
      if (value) value = rounded(*value, 9);
      v(concat(use.device, '_', name).c_str(), value, "Mean of the readings, in its unit.");
    };
    for (std::size_t i = 0; i < use.means.size(); ++i) {
      add(engine::kDeviceMetrics[i].name, use.means[i]);
    }
    add(engine::kDeviceEnergy, use.energy_joules);
  }
  if (file_row.has_time) v("time", file_row.time, "The time at which the row was written.");
}

void fields(FieldVisitor& v, RowKey& key) {
  v(kStepKey, key.step, kSteps, "Steps done.");
  v(kSplitKey, key.split, "The split.");
}

void fields(FieldVisitor& v, BestCheckpoint& best) {
  v("metric", best.metric, "The metric by which the checkpoint is the best (run.best).");
  v("value", best.value, "The value of the metric.");
  v("epoch", best.epoch, "epochs", "Epochs done at the checkpoint.");
  v("step", best.step, kSteps, "Steps done at the checkpoint.");
  v.when_present("restored", best.restored,
                 "The run has ended with the parameters of this checkpoint.");
  v.when_present("path", best.path, "The file of the checkpoint.");
}

}  // namespace trainer::results
