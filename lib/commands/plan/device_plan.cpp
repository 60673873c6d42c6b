#include "commands/plan/device_plan.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.h"
#include "base/numbers/seconds.h"
#include "train/schedule/stages.h"
#include "train/servers/parameter_servers.h"

namespace trainer::commands {
namespace {

// Keeps the memory of a stage if it is more than that of the stages before. Stage 0 is the start.
void take_larger(DevicePlan& device, const backend::MemoryReport& memory, std::size_t stage) {
  if (memory.total() <= device.memory.total()) return;
  device.memory = memory;
  if (stage > 0 || device.memory_stage) device.memory_stage = stage;
}

// What the stages of unfreeze take, one after the other, as in a run.
void measure_later_stages(DevicePlan& device, const config::Config& config,
                          const backend::Platform& platform, const PlannedData& data,
                          std::int64_t workers) {
  if (!config.model.backbone || config.model.backbone->unfreeze.empty()) return;
  std::vector<std::int64_t> first(config.model.backbone->unfreeze.size() + 1);
  std::iota(first.begin(), first.end(), 0);
  const auto models = train::stage_models(config, *data.sample, first);
  std::int64_t total_steps = std::ssize(models);
  if (data.size(Split::kTrain) > 0) {
    const train::TrainingPlan steps = train::plan_steps(config, data.size(Split::kTrain), workers);
    first = train::Stages(config, steps).first_steps();
    total_steps = steps.total_steps;
  }
  for (std::size_t stage = 1; stage < models.size() && first[stage] < total_steps; ++stage) {
    engine::Engine engine(models[stage], config, engine::open_backends(config, platform, workers),
                          engine::Use::kTrain);
    take_larger(device, engine.memory(), stage);
  }
}

// Returns the times by the instructions of the frozen layers and of the training program.
Roofline compute_roofline(const DevicePlan& device, const config::Config& config) {
  std::vector<backend::InstructionInfo> steps;
  if (const engine::FrozenPrefix* prefix = device.engine->replica().prefix()) {
    steps = prefix->program().instructions();
    // The program of the frozen layers is for the larger one of the batches.
    const auto batch = static_cast<double>(config.train.batch_size);
    const auto evaluated = static_cast<double>(device.engine->replica().evaluation_batch());
    const double share = batch / std::max(batch, evaluated);
    for (backend::InstructionInfo& step : steps) {
      step.flops *= share;
      if (step.work) step.work->bytes *= share;
    }
  }
  steps.insert(steps.end(), device.steps.begin(), device.steps.end());
  return roofline(steps, config.train.batch_size,
                  config.train.precision == config::Precision::kTf32, *device.gpu);
}

// Plans what becomes of the outputs of frozen layers, and measures how fast this machine reads
// images for a planned GPU that needs them in every step.
void plan_features(DevicePlan& device, const PlannedData& data, const config::Config& config,
                   const cluster::Identity& who) {
  using Storage = train::FeaturePlan::Storage;
  if (train::has_parameter_servers(who)) {
    device.features =
        "not kept: with parameter servers, a worker sees other samples in every epoch";
    return;
  }
  if (data.size(Split::kTrain) == 0) {
    device.features = "unknown without the data";
    return;
  }
  const std::int64_t workers = workers_in_step(who);
  const train::TrainingPlan steps = train::plan_steps(config, data.size(Split::kTrain), workers);
  const train::FeaturePlan plan = train::plan_features(
      config, *device.engine, data.splits, steps.epoch(steps.total_steps),
      workers > 1 ? train::FeatureSharing::kOneMachine : train::FeatureSharing::kAlone);
  const bool are_kept = plan.storage != Storage::kNone;
  device.features =
      describe(plan) + (are_kept && workers > 1 ? ", if all workers are on one machine" : "");
  device.keeps_features =
      are_kept && std::ranges::find(plan.splits, Split::kTrain) != plan.splits.end();
  if (device.gpu != nullptr && !device.keeps_features) device.decoding = measure_decoding(config);
}

}  // namespace

DevicePlan plan_device(const std::optional<graph::Graph>& model, const PlannedData& data,
                       const config::Config& config, const backend::Platform& platform,
                       const cluster::Identity& who) {
  const backend::GpuModel* gpu = backend::find_gpu_model(platform.planned_gpu);
  const std::int64_t workers = workers_in_step(who);
  DevicePlan device;
  device.gpu = gpu;
  if (gpu == nullptr && !engine::uses_gpus(config.parallel, platform)) {
    device.machine = trainer::describe(backend::machine_topology(platform));
  }
  std::vector<std::unique_ptr<backend::Backend>> backends;
  try {
    backends = engine::open_backends(config, platform, workers);
  } catch (const DeviceError& error) {
    device.backend = concat("none here; ", error.what());
    return device;
  }
  device.backend = backends.front()->describe();
  device.chosen = backends.front()->chosen_settings();
  device.sums = engine::describe_sums(config.parallel, platform, workers);
  if (!model) return device;
  measure_later_stages(device, config, platform, data, workers);
  const auto start = std::chrono::steady_clock::now();
  device.engine =
      std::make_unique<engine::Engine>(*model, config, std::move(backends), engine::Use::kTrain);
  device.backend = device.engine->describe();
  device.chosen = device.engine->backend().chosen_settings();
  device.compile_seconds = seconds_since(start);
  take_larger(device, device.engine->memory(), 0);
  if (gpu != nullptr) {
    device.steps = device.engine->replica().training_instructions();
    device.roofline = compute_roofline(device, config);
  }
  plan_features(device, data, config, who);
  return device;
}

}  // namespace trainer::commands
