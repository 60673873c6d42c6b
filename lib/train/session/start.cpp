#include "train/session/start.h"

#include <algorithm>

#include "base/error.h"
#include "base/shell.h"
#include "model/import.h"
#include "train/session/checkpointer.h"
#include "train/session/session.h"
#include "train/session/stage_control.h"

namespace trainer::train {
namespace {

double largest_weight(const data::Dataset& dataset) {
  if (!dataset.spec().has_weights) return 1;
  double largest = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    largest = std::max<double>(largest, dataset.weight_of(i));
  }
  return largest;
}

// What to do instead of a resume, for messages.
std::string how_to_begin_anew(const Path& run) {
  const std::string setting =
      config::to_setting({"model.weights", run.string(), "--set", config::Override::Syntax::kText});
  return concat("start a new run from its parameters: --run-dir NEW --set ", shell_word(setting),
                " without --resume.");
}

void check_averages(const checkpoint::TensorFile& file, const config::Config& config,
                    const std::string& path, const Path& run) {
  const bool has_averages =
      std::any_of(file.tensors.begin(), file.tensors.end(),
                  [](const auto& tensor) { return tensor.name.ends_with("/average"); });
  if (config.optimizer.ema && !has_averages) {
    throw DataError(path, concat("cannot be resumed: optimizer.ema needs averages of the weights, "
                                 "which the run does not have\nRemove it, or ",
                                 how_to_begin_anew(run)));
  }
}

}  // namespace

void resume(Session& session, Checkpointer& checkpointer, StageControl& stages) {
  Job& job = session.job;
  const auto file = checkpointer.load_latest();
  if (!file) return;
  const std::string path = checkpoint_folder(job.run).string();
  session.state = from_metadata(file->metadata, job.config, job.data, job.plan, path,
                                how_to_begin_anew(job.run));
  for (const std::string& change : changes_since(file->metadata, job.config).warnings) {
    job.warn("since the checkpoint " + change);
  }
  check_averages(*file, job.config, path, job.run);
  stages.enter_after(session.state.step);
  job.engine.load(*file, path);
  if (session.state.loss_scale) job.engine.set_loss_scale(*session.state.loss_scale);
  checkpointer.set_resumed();
}

std::string import_weights(Session& session) {
  Job& job = session.job;
  const model::Import import = model::import_weights(job.engine.model(), job.config.model);
  job.engine.write(import.tensors);
  const model::ImportReport& report = import.report;
  for (const Notice& notice : report.notices()) job.warn(notice);
  return report.path.empty() ? "" : report.line();
}

hooks::RunInfo run_info(const Session& session, const std::string& weights) {
  const Job& job = session.job;
  hooks::RunInfo info;
  info.name = job.config.name;
  info.dir = job.run;
  info.classes = job.data.classes;
  info.largest_weight = largest_weight(*job.data.train);
  info.total_steps = job.plan.total_steps;
  info.steps_per_epoch = job.plan.steps_per_epoch;
  info.first_step = session.state.step;
  info.global_batch = job.plan.batch * job.plan.accumulate;
  info.replicas = static_cast<int>(job.plan.replicas);
  info.repetitions = job.plan.repetitions;
  info.weights = weights;
  // Ramp_up has rates of its own.
  if (!std::holds_alternative<config::RampUpSchedule>(job.config.schedule.kind)) {
    info.scaled_rate = scaled_rate(job.config, job.plan.replicas).text();
  }
  info.ranks = job.strategy.rank_names();
  job.strategy.describe(info);
  info.devices = job.engine.describe_devices(info.replicas);
  return info;
}

// Statistics of few samples are noise, which the moving ones do not have.
void warn_of_small_batches(const Session& session) {
  constexpr std::int64_t kFew = 16;
  const Job& job = session.job;
  const std::int64_t own = job.plan.batch / job.plan.replicas;
  if (job.plan.replicas == 1 || own >= kFew || job.config.parallel.batch_norm.sync ||
      !engine::uses_batch_statistics(job.engine.model())) {
    return;
  }
  job.warn(concat("batch norm takes its statistics over the ", own,
                  " samples of one replica; parallel.batch_norm.sync: true takes them over all ",
                  job.plan.batch));
}

}  // namespace trainer::train
