#include "results/train_events.h"

#include "results/rounded.h"

namespace trainer::results {

void fields(FieldVisitor& v, StartEvent& event) {
  v.event("start");
  v("run", event.run, "The run folder.");
  v("total_steps", event.total_steps, kSteps, "Steps that the config asks for.");
  v("steps_per_epoch", event.steps_per_epoch, kSteps, "Steps of an epoch.");
  v("first_step", event.first_step, kSteps, "Steps that were done before.");
  v("global_batch", event.global_batch, kSamples, "Samples of a step.");
  v("replicas", event.replicas, "replicas", "Replicas of all workers.");
  v("passes_per_epoch", event.passes_per_epoch,
    "The number of times that an epoch uses each sample.");
  v.when_present("weights", event.weights, "The result of importing a weight file.");
}

void fields(FieldVisitor& v, MeasuredKeys& keys) {
  v.when_present("parameters", keys.parameters, {"numbers", 0}, "Parameters of the model.");
  v.when_present("trainable_parameters", keys.trainable_parameters, {"numbers", 0},
                 "Parameters that are trained.");
  v.when_present("flops", keys.flops, {"FLOP", 0}, "Forward operations of a sample.");
  v("batch_size", keys.batch_size, kSamples, "Samples per replica.");
  v.when_present("replicas", keys.replicas, {"replicas", 1}, "Replicas of the model.");
}

void fields(FieldVisitor& v, ModelEvent& event) {
  v.event("model");
  fields(v, event.keys);
}

void fields(FieldVisitor& v, StepEvent& event) {
  v.event("step");
  MetricsRow& row = event.row;
  v("step", row.step, kSteps, "Steps done.");
  v("epoch", row.epoch, "epochs", "Epochs done.");
  v("loss", row.loss, "Mean loss since the line before.");
  v("accuracy", row.accuracy, kShare, "Accuracy since the line before.");
  v("learning_rate", row.learning_rate, "The learning rate of the step.");
  v("images_per_second", row.images_per_second, kImagesPerSecond,
    "Throughput since the line before.");
  v("steps_per_second", row.steps_per_second, Unit("steps/s", 0),
    "Throughput since the line before.");
  v("wait_share", row.wait_share, kShare, "The share of the time that waited for data.");
  v("elapsed", event.elapsed, kSeconds, "Time since the start of the process.");
  v.when_present("staleness", event.staleness, "updates", "Mean staleness of the gradients.");
  v.when_present("staleness_max", event.staleness_max, "updates", "The largest staleness.");
}

FurtherMetrics find_further_metrics(const engine::Metrics& metrics) {
  FurtherMetrics result;
  result.top_k = metrics.top_k;
  if (metrics.top_k > 0) result.top_k_accuracy = metrics.top_k_accuracy;
  result.means = find_means(metrics);
  return result;
}

void fields(FieldVisitor& v, FurtherMetrics& metrics) {
  v.when_present("top_k", metrics.top_k, "classes", "The classes that top_k_accuracy counts.");
  v.when_present("top_k_accuracy", metrics.top_k_accuracy, kShare,
                 "Samples whose class is one of the top_k most probable.");
  fields(v, metrics.means);
}

void fields(FieldVisitor& v, Evaluation& evaluation) {
  v.event("evaluation");
  v("split", evaluation.split, "The evaluated split.");
  v("step", evaluation.step, kSteps, "Steps done.");
  v("epoch", evaluation.epoch, "epochs", "Epochs done.");
  v("loss", evaluation.metrics.loss, "Mean loss of the samples.");
  v("accuracy", evaluation.metrics.accuracy, kShare, "Samples whose class is predicted right.");
  v("accuracy_low", evaluation.metrics.accuracy_interval.low, kShare,
    "Lower end of the 95 % interval of the accuracy (Wilson).");
  v("accuracy_high", evaluation.metrics.accuracy_interval.high, kShare,
    "Upper end of the 95 % interval of the accuracy (Wilson).");
  FurtherMetrics further = find_further_metrics(evaluation.metrics);
  fields(v, further);
  v("count", evaluation.metrics.count, kSamples, "Samples of the split.");
  v("seconds", evaluation.seconds, kSeconds, "Time of the evaluation.");
}

void fields(FieldVisitor& v, DataReportEvent& event) {
  v.event("data_report");
  v("split", event.split, "The split.");
  v("files", event.damage.files, "Files in its list.");
  v("skipped", event.damage.skipped, "Files that are left out.");
  v("replaced", event.damage.replaced, "Files for which another one stands in.");
  v("path", event.path, "The file that lists them.");
}

void fields(FieldVisitor& v, CheckpointEvent& event) {
  v.event("checkpoint");
  v("path", event.path, "The file of the checkpoint.");
  v("step", event.step, kSteps, "Steps done.");
}

void fields(FieldVisitor& v, Staleness& staleness) {
  v("mean", staleness.mean, "updates", "Mean number of updates between pull and push.");
  v("max", staleness.max, "updates", "The largest number.");
  v("refused", staleness.rejected, "gradients", "Gradients above parallel.max_staleness.");
}

void fields(FieldVisitor& v, FinalMetrics& metrics) {
  v("loss", metrics.loss, "Mean loss of the samples.");
  v("accuracy", metrics.accuracy, kShare, "Samples whose class is predicted right.");
  v("count", metrics.count, kSamples, "Samples of the split.");
}

void fields(FieldVisitor& v, FinishedEvent& event) {
  Finish& finish = event.finish;
  std::vector<std::pair<std::string, FinalMetrics>> metrics;
  for (const Evaluation& e : finish.evaluations) {
    metrics.push_back({to_string(e.split), {e.metrics.loss, e.metrics.accuracy, e.metrics.count}});
  }
  std::optional<StepMeans> step_times;
  if (!finish.times.empty()) step_times = make_step_means(finish.times, event.ranks);
  std::vector<engine::DeviceUse> devices = finish.devices;
  for (engine::DeviceUse& use : devices) {
    for (std::optional<double>& mean : use.means) {
      if (mean) mean = rounded(*mean, 9);
    }
  }
  v.event("finished");
  v("run", event.run, "The run folder.");
  v("steps", finish.steps, kSteps, "Steps of the run.");
  v("total_seconds", finish.step_seconds, kSeconds, "Sum of the times of the steps.");
  v("wall_seconds", finish.wall_seconds, kSeconds, "Time of training and evaluation.");
  v("images_per_second", finish.images_per_second, kImagesPerSecond,
    "Global batch per mean time of a step.");
  v.derived("reason", to_string(finish.reason), "Why the run ended.");
  v("metrics", metrics, "Final metrics by split.");
  v("parameters_sha256", finish.parameters_sha256, "Hash of the parameters.");
  fields(v, event.rates);
  v.when_present("best", finish.best, "The best checkpoint.");
  v.when_present("skipped_updates", finish.skipped_updates, kSteps,
                 "Steps whose float16 gradient overflowed.");
  v.when_present("staleness", finish.staleness,
                 "Staleness of the gradients, with parameter servers.");
  v.when_present("input", finish.input, "How training data was prefetched.");
  v.when_present("step_times", step_times, "Mean times of a step.");
  v.when_present("gap_seconds", finish.gap_seconds, kSeconds,
                 "Mean gap between steps on a device.");
  v.when_present("devices", devices, "Telemetry of the devices of this process.");
  v.when_present("energy_joules", finish.energy_joules, "J", "Energy of all devices.");
  v.when_present("joules_per_image", finish.joules_per_image, "J",
                 "Energy per image that was trained on.");
}

void fields(FieldVisitor& v, LineKeys& keys) {
  v.when_present("event", keys.event, "The kind of line.");
  v.when_present("total_steps", keys.total_steps, kSteps, "Steps that the config asks for.");
  v.when_present("step", keys.step, kSteps, "Steps done.");
  v.when_present("images_per_second", keys.images_per_second, kImagesPerSecond, "Throughput.");
}

void fields(FieldVisitor& v, TrackedEnd& end) {
  Finish& finish = end.finish;
  using Named = std::vector<std::pair<std::string, double>>;
  std::vector<std::pair<std::string, Named>> metrics;
  for (const Evaluation& e : finish.evaluations) {
    const auto named = engine::named_metrics(e.metrics);
    metrics.emplace_back(to_string(e.split), Named(named.begin(), named.end()));
  }
  std::optional<BestCheckpoint> best = finish.best;
  if (best) best->path.clear();
  v("steps", finish.steps, kSteps, "Steps of the run.");
  v.derived("reason", to_string(finish.reason), "Why the run ended.");
  v("metrics", metrics, "Final metrics by split and name.");
  v("parameters_sha256", finish.parameters_sha256, "Hash of the parameters.");
  v.when_present("best", best, "The best checkpoint.");
}

}  // namespace trainer::results
