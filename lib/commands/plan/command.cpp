#include "commands/plan/command.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/process/memory.h"
#include "base/text.h"
#include "commands/plan/device_plan.h"
#include "commands/plan/print_graphs.h"
#include "commands/plan/resolved.h"
#include "config/machine.h"
#include "inference/open_model/source.h"
#include "model/files/import.h"
#include "optim/optim.h"
#include "results/page/svg.h"
#include "results/write_json.h"
#include "train/host_memory.h"
#include "train/process_group.h"
#include "train/resolve_batch_size.h"
#include "train/schedule/stages.h"
#include "train/warnings.h"

namespace trainer::commands {
namespace {

// Returns the phases of the schedule in order, up to the end of the training.
std::vector<results::Chart::Band> list_phases(const config::Config& config,
                                              const train::TrainingPlan& plan) {
  const config::Schedule& schedule = config.schedule;
  const double epochs = plan.epoch(plan.total_steps);
  std::vector<results::Chart::Band> phases;
  const auto add = [&](const char* name, double end) {
    const double begin = phases.empty() ? 0 : phases.back().end;
    if (end > begin && begin < epochs) phases.push_back({begin, std::min(end, epochs), name});
  };
  if (const auto* ramp = std::get_if<config::RampUpSchedule>(&schedule.kind)) {
    add("warm-up", ramp->ramp_epochs);
    add("sustain", ramp->ramp_epochs + ramp->sustain_epochs);
    add(ramp->decay < 1 ? "decay" : "sustain", epochs);
    return phases;
  }
  if (schedule.warm_up) {
    const optim::Length length{static_cast<double>(plan.steps_per_epoch), plan.total_steps,
                               static_cast<int>(plan.replicas)};
    add("warm-up", optim::to_steps(schedule.warm_up->over, length) / length.steps_per_epoch);
  }
  const bool constant = std::holds_alternative<config::ConstantSchedule>(schedule.kind);
  add(constant ? "constant" : "decay", epochs);
  return phases;
}

// Returns in order: the first and last step, the first and last step of the highest rate, and the
// first step of the lowest.
std::vector<std::int64_t> list_notable_steps(const optim::LearningRate& rate,
                                             std::int64_t total_steps) {
  std::int64_t highest = 0, highest_end = 0, lowest = 0;
  for (std::int64_t step = 0; step < total_steps; ++step) {
    if (rate(step) > rate(highest)) highest = highest_end = step;
    // A plateau ends where the rate is no longer the highest, not where it is that again.
    if (rate(step) == rate(highest) && step == highest_end + 1) highest_end = step;
    if (rate(step) < rate(lowest)) lowest = step;
  }
  std::vector<std::int64_t> steps{0, highest, highest_end, lowest, total_steps - 1};
  std::ranges::sort(steps);
  return steps;
}

// Returns the steps whose rates are drawn, by rising step: every step, or evenly spaced ones and
// the notable ones.
std::vector<std::int64_t> list_drawn_steps(std::int64_t total_steps,
                                           const std::vector<std::int64_t>& notable) {
  std::vector<std::int64_t> steps = notable;
  const std::int64_t spaced = total_steps > results::kMaxChartPoints
                                  ? results::kMaxChartPoints - std::ssize(notable)
                                  : results::kMaxChartPoints;
  const std::int64_t stride = (total_steps + spaced - 1) / spaced;
  for (std::int64_t step = 0; step < total_steps; step += stride) steps.push_back(step);
  std::ranges::sort(steps);
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

// Returns a line chart of the rate over epochs, with warm-up, sustained and decaying phases shaded
// and named, and the rate written at the first and last step, where the highest begins and ends,
// and at the lowest. The curve has one point per step, of long trainings every n-th, at most 400.
results::Chart make_rate_chart(const config::Config& config, const train::TrainingPlan& plan) {
  const optim::LearningRate rate = train::staged_learning_rate(config, plan);
  const std::int64_t steps = plan.total_steps;
  results::Chart chart{
      "rate",
      "Learning rate of " + config.name,
      concat("epoch (", counted(plan.steps_per_epoch, "step"), " each, ", steps, " in all)"),
      "learning rate",
      {{"learning rate", {}}},
      true};
  chart.bands = list_phases(config, plan);
  if (steps == 0) return chart;
  const auto point = [&](std::int64_t step) { return std::pair(plan.epoch(step), rate(step)); };
  const std::vector<std::int64_t> notable = list_notable_steps(rate, steps);
  for (const std::int64_t step : list_drawn_steps(steps, notable)) {
    chart.series.front().points.push_back(point(step));
  }
  for (const std::int64_t step : notable) chart.notable.push_back(point(step));
  return chart;
}

}  // namespace

int execute(const PlanArguments& arguments, const Context& context) {
  check_pass(arguments.print_after);
  if (!arguments.plot.empty()) check_output_path("--plot", arguments.plot, arguments.overwrite);
  backend::Platform platform = backend::read_platform(context.environment);
  platform.planned_gpu = arguments.device;
  backend::check_planned_gpu(platform);
  if (!arguments.machine.empty()) {
    platform.planned_machine = simulate_topology(config::load_machine(arguments.machine));
  }
  config::LoadedConfig loaded = load(arguments, context);
  const config::Config& config = loaded.config;
  const cluster::Identity who =
      arguments.world_size
          ? planned_workers(*arguments.world_size)
          : cluster::identify({.hosts = config.parallel.hosts}, context.environment);
  context.warn(cluster::launch_notice(who, context.environment));
  context.warn(loaded.notice);
  train::check_workers(config, who);
  context.warn(backend::device_warning(engine::device_options(config.parallel, platform)));
  const PlannedData data = plan_data(loaded.config);
  const std::optional<graph::Graph> model = plan_model(config, data);
  if (model)
    context.warn(
        train::resolve_batch_size(loaded.config, platform, *model, data.size(Split::kTrain)));
  PlanReport report = make_plan(loaded, data, model, who);
  for (const std::string& line : train::config_warnings(config, data.sample, report.steps)) {
    context.warn(line);
  }
  context.warn(model::missing_weights(config.model, context.environment));
  if (!inference::is_run(arguments.path)) model::check_weights(model, config.model);
  if (!arguments.plot.empty()) {
    if (!report.steps) throw DataError("--plot", "needs the number of samples: " + data.unknown);
    write_file_atomic(arguments.plot,
                      results::svg_document(make_rate_chart(config, *report.steps)));
  }
  std::optional<Simulation> simulation;
  if (arguments.simulation.workers > 0) {
    simulation = simulate(arguments.simulation, config, platform, model);
  }
  const DevicePlan device = plan_device(model, data, config, platform, who);
  if (model && !device.machine.empty() && arguments.machine.empty()) {
    context.warn(
        train::host_memory_warning(*model, config, platform, device.memory, available_memory()));
  }
  fill_in(report.settings, resolve_on_machine(config, device));
  if (arguments.json) {
    results::print_json(PlanEvent{&report, &device}, context.out);
  } else {
    print_plan(report, context.out, arguments.all ? Values::kAll : Values::kGiven,
               arguments.layers ? LayerRows::kAll : LayerRows::kBlocks, context.terminal_width());
    print_device(report, device, context.out, context.terminal_width());
  }
  if (simulation) {
    (arguments.json ? results::print_json<Simulation> : print_simulation)(*simulation, context.out);
  }
  // Standard output holds nothing but JSON when that was asked for.
  std::ostream& text = arguments.json ? context.errors : context.out;
  if (model && !arguments.print_after.empty()) {
    print_graphs(*model, config, *engine::open_backends(config, platform).front(),
                 arguments.print_after, text);
  }
  if (device.engine && arguments.program) print_programs(*device.engine, text);
  return kExitOk;
}

}  // namespace trainer::commands
