#include "commands/plan/command.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/process/memory.h"
#include "commands/plan/device_plan.h"
#include "commands/plan/print_graphs.h"
#include "commands/plan/rate_plot.h"
#include "commands/plan/resolved.h"
#include "config/machine.h"
#include "engine/compile_options.h"
#include "inference/open_model/source.h"
#include "model/files/import.h"
#include "results/write_json.h"
#include "train/host_memory.h"
#include "train/process_group.h"
#include "train/resolve_batch_size.h"
#include "train/warnings.h"

namespace trainer::commands {

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
  context.warn(engine::resolve_precision(loaded.config, platform));
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
    write_file_atomic(arguments.plot, rate_plot(config, *report.steps));
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
