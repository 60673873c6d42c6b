#include "train/loop/start.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "model/files/import.h"
#include "train/class_order.h"
#include "train/loop/checkpointer.h"
#include "train/loop/run_context.h"
#include "train/loop/stage_control.h"

namespace trainer::train {
namespace {

double largest_weight(const data::Dataset& dataset) {
  if (!dataset.spec().has_weights) return 1;
  double largest = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    largest = std::max<double>(largest, dataset.weight_at(i));
  }
  return largest;
}

// Returns the largest quotient of the weights of a label's positives and negatives, at least 1.
// This is the largest train.pos_weight; see graph::Loss::target_weight.
double largest_positive_weight(const std::vector<float>& target_weight) {
  const std::size_t labels = target_weight.size() / 2;
  double largest = 1;
  for (std::size_t i = 0; i < labels; ++i) {
    if (target_weight[i] <= 0) continue;
    largest = std::max(largest, static_cast<double>(target_weight[labels + i] / target_weight[i]));
  }
  return largest;
}

void check_averages(const checkpoint::TensorFile& file, const config::Config& config,
                    const std::string& path, const Path& run) {
  const bool has_averages = std::ranges::any_of(
      file.tensors, [](const auto& tensor) { return tensor.name.ends_with("/average"); });
  if (config.optimizer.ema && !has_averages) {
    throw DataError(path, Controls::kLines,
                    "cannot be resumed: optimizer.ema needs averages of the weights, "
                    "which the run does not have\nRemove it, or ",
                    new_run_advice(run));
  }
}

// Returns names such as "rank 3 (replica 1 of worker 1 on host b)"; "replica 1" in a group of one.
std::vector<std::string> name_ranks(const Job& job) {
  std::vector<std::string> names;
  const std::int64_t replicas = job.engine.count();
  if (job.group.size() == 1) {
    for (std::int64_t i = 0; i < replicas; ++i) names.push_back(concat("replica ", i));
    return names;
  }
  std::int64_t worker = 0;
  for (const std::string& host : job.group.hosts()) {
    for (std::int64_t i = 0; i < replicas; ++i) {
      names.push_back(concat("rank ", worker * replicas + i, " (",
                             replicas > 1 ? concat("replica ", i, " of ") : std::string(),
                             "worker ", worker, " on host ", host, ")"));
    }
    ++worker;
  }
  return names;
}

}  // namespace

void resume(RunContext& context, Checkpointer& checkpointer, StageControl& stages) {
  Job& job = context.job;
  const auto file = checkpointer.load_latest();
  if (!file) return;
  const std::string path = checkpoint_folder(job.run).string();
  context.state = from_metadata(file->metadata, job.config, job.data, job.plan, path, job.run);
  for (const std::string& change : changes_since(file->metadata, job.config).warnings) {
    job.warn("since the checkpoint " + change);
  }
  check_averages(*file, job.config, path, job.run);
  stages.enter_after(context.state.step);
  job.engine.load(*file, path);
  if (context.state.loss_scale) job.engine.set_loss_scale(*context.state.loss_scale);
  checkpointer.set_resumed();
}

std::string import_weights(RunContext& context) {
  Job& job = context.job;
  const model::Import import =
      model::import_weights(job.engine.replica().model(), job.config.model);
  job.engine.write(import.tensors);
  const model::ImportReport& report = import.report;
  for (const Notice& notice : report.notices()) job.warn(notice);
  if (job.data.label_is_index || job.data.train->spec().is_multi_label()) {
    const Notice order = check_class_order(report, job.data.classes);
    if (!order.text.empty()) job.warn(order);
  }
  return report.path.empty() ? "" : report.line();
}

void copy_from_chief(RunContext& context, StageControl& stages) {
  const Job& job = context.job;
  if (job.group.size() == 1) return;
  checkpoint::Metadata metadata = to_metadata(context.state, job.config, job.data, job.plan);
  job.group.broadcast_from_chief(metadata);
  if (!job.group.is_chief()) {
    context.state =
        from_metadata(metadata, job.config, job.data, job.plan, "the checkpoint of rank 0");
    stages.enter_after(context.state.step);
  }
  std::vector<checkpoint::Tensor> tensors = job.engine.replica().tensors();
  job.group.broadcast_from_chief(tensors);
  if (job.group.is_chief()) return;
  job.engine.load({std::move(tensors), {}}, "the variables of rank 0");
  if (context.state.loss_scale) job.engine.set_loss_scale(*context.state.loss_scale);
}

hooks::RunInfo run_info(const RunContext& context, const std::string& weights) {
  const Job& job = context.job;
  hooks::RunInfo info;
  info.name = job.config.name;
  info.dir = job.run;
  info.classes = job.data.classes;
  info.is_multi_label = job.data.train->spec().is_multi_label();
  info.largest_weight =
      largest_weight(*job.data.train) * largest_positive_weight(job.data.target_weight);
  info.total_steps = job.plan.total_steps;
  info.steps_per_epoch = job.plan.steps_per_epoch;
  info.first_step = context.state.step;
  info.global_batch = job.plan.batch * job.plan.accumulate;
  info.replicas = static_cast<int>(job.plan.replicas);
  info.passes_per_epoch = job.plan.passes_per_epoch;
  info.weights = weights;
  // A schedule with ramp_up has rates of its own.
  if (!std::holds_alternative<config::RampUpSchedule>(job.config.schedule.kind)) {
    info.scaled_rate = scaled_rate(job.config, job.plan.replicas).text();
  }
  info.ranks = name_ranks(job);
  info.devices = job.engine.backend().describe_devices(info.replicas);
  return info;
}

// The statistics of few samples are noisy, unlike the moving statistics of evaluation.
void warn_of_small_batches(const RunContext& context) {
  constexpr std::int64_t kMinOwnBatch = 16;
  const Job& job = context.job;
  const std::int64_t samples = job.plan.batch / job.plan.replicas;
  if (job.plan.replicas == 1 || samples >= kMinOwnBatch || job.config.parallel.batch_norm.sync ||
      !engine::uses_batch_statistics(job.engine.replica().model())) {
    return;
  }
  job.warn(concat("batch norm takes its statistics over the ", samples,
                  " samples of one replica; parallel.batch_norm.sync: true takes them over all ",
                  job.plan.batch));
}

}  // namespace trainer::train
