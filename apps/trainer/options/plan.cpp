#include <iostream>

#include "backend/gpu_model.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/process/memory.h"
#include "options/commands.h"
#include "commands/plan/plan_report.h"
#include "commands/plan/rate_plot.h"
#include "commands/plan/resolved.h"
#include "commands/plan/simulate.h"
#include "config/machine.h"
#include "model/files/import.h"
#include "options/options.h"
#include "train/host_memory.h"
#include "train/process_group.h"
#include "train/resolve_batch_size.h"
#include "train/warnings.h"

namespace trainer::app {
namespace {

struct PlanArguments : ConfigArguments {
  std::string print_after;        // a compiler pass, or "all"
  bool all = false;               // the config's defaults too
  bool layers = false;            // each layer of a backbone
  bool program = false;           // also what the backend runs, step by step
  std::string plot;               // write the learning-rate curve to this SVG file
  bool overwrite = false;         // a plot that exists
  std::optional<int> world_size;  // plan for so many processes; else the environment has it
  commands::SimulationRequest simulation;
  std::string device;   // a GPU model to plan for
  std::string machine;  // a file with the shape of a machine to plan for
  std::string gpus;     // workers to simulate when a link is given, else parallel.gpus
};

int plan(const PlanArguments& arguments) {
  commands::check_pass(arguments.print_after);
  if (!arguments.plot.empty()) check_output_path("--plot", arguments.plot, arguments.overwrite);
  backend::plan_for_gpu(arguments.device);
  if (!arguments.machine.empty()) {
    backend::plan_for_machine(simulate_topology(config::load_machine(arguments.machine)));
  }
  config::LoadedConfig loaded = load(arguments);
  const config::Config& config = loaded.config;
  const cluster::Identity who = arguments.world_size
                                    ? commands::planned_workers(*arguments.world_size)
                                    : cluster::identify({}, environment());
  train::check_workers(config, who);
  warn(backend::device_warning(engine::device_options(config.parallel)));
  const commands::PlannedData data = commands::plan_data(loaded.config);
  const std::optional<graph::Graph> model = commands::plan_model(config, data);
  if (model) warn(train::resolve_batch_size(loaded.config, *model, data.size(Split::kTrain)));
  commands::PlanReport report = commands::make_plan(loaded, data, model, who);
  for (const std::string& line : train::config_warnings(config, data.sample, report.steps)) {
    warn(line);
  }
  warn(model::missing_weights(config.model, environment()));
  if (!arguments.plot.empty()) {
    if (!report.steps) throw DataError("--plot", "needs the number of samples: " + data.unknown);
    write_file_atomic(arguments.plot, commands::rate_plot(config, *report.steps));
  }
  std::optional<commands::Simulation> simulation;
  if (arguments.simulation.workers > 0) {
    simulation = commands::simulate(arguments.simulation, config, model);
  }
  const commands::DevicePlan device =
      commands::plan_device(model, data, config, who, backend::find_gpu_model(arguments.device));
  if (model && !device.machine.empty() && arguments.machine.empty()) {
    warn(train::host_memory_warning(*model, config, device.memory, available_memory()));
  }
  commands::fill_in(report.settings, commands::resolve_on_machine(config, device));
  if (arguments.json) {
    commands::print_plan_json(report, device, std::cout);
  } else {
    commands::print_plan(
        report, std::cout, arguments.all ? commands::Values::kAll : commands::Values::kGiven,
        arguments.layers ? commands::LayerRows::kAll : commands::LayerRows::kBlocks);
    commands::print_device(report, device, std::cout);
  }
  if (simulation) {
    (arguments.json ? commands::print_simulation_json : commands::print_simulation)(*simulation,
                                                                                    std::cout);
  }
  // Standard output holds nothing but JSON when that was asked for.
  std::ostream& text = arguments.json ? std::cerr : std::cout;
  if (model && !arguments.print_after.empty()) {
    commands::print_graphs(*model, config, *engine::open_backends(config).front(),
                           arguments.print_after, text);
  }
  if (device.engine && arguments.program) commands::print_programs(*device.engine, text);
  return kExitOk;
}

// What --gpus means is known when all options are.
void take_gpus(PlanArguments& arguments) {
  if (arguments.simulation.link.empty()) {
    if (!arguments.gpus.empty()) {
      arguments.overrides.push_back(gpus_override(arguments.gpus));
    }
    return;
  }
  if (!arguments.gpus.empty()) {
    const std::string wrong = check_range(arguments.gpus, 1, 1 << 20);
    if (!wrong.empty()) reject_value("--gpus", wrong);
    arguments.simulation.workers = std::stoi(arguments.gpus);
  }
  if (arguments.simulation.workers == 0) reject_missing("--link", "--workers or --gpus");
}

void add_simulation(const Command& command, PlanArguments& arguments) {
  commands::SimulationRequest& request = arguments.simulation;
  command.remove_option("--gpus");
  const Option workers =
      command
          .add_option("--workers", request.workers,
                      "Predict step time and efficiency on 1, 2, 4, ... so many workers")
          .in_range(1, 1 << 20);
  command
      .add_option(
          "--gpus", arguments.gpus,
          "GPUs to use: a number, all or [0, 2] (parallel.gpus); with --link the same as --workers")
      .excludes(workers);
  const Option link =
      command.add_option("--link", request.link, "Bandwidth of each worker's link, e.g. 100Gbit");
  workers.needs(link);
  command.add_option("--latency", request.latency, "Of a message; default 20us").needs(link);
  const Option step_time =
      command
          .add_option("--step-time", request.step_time,
                      "Time of one worker's step, e.g. 120ms; else it is measured here")
          .needs(link);
  command
      .add_option("--measured", request.measured,
                  "Take it from the output of benchmark --json or train --json")
      .type_name("FILE")
      .needs(link)
      .excludes(step_time);
  command.add_option("--seconds", request.seconds, "Time to measure; default 2")
      .needs(link)
      .not_negative();
}

}  // namespace

void add_plan(CommandLine& line) {
  const auto arguments = std::make_shared<PlanArguments>();
  const Command command = line.add_command(
      "plan", "What a config means: values and their origins, layers, steps, memory");
  add_config(command, *arguments);
  const Option device =
      command
          .add_option("--device", arguments->device,
                      "Plan for a GPU that need not be here: " + backend::gpu_model_names())
          .type_name("GPU");
  command
      .add_option("--machine", arguments->machine,
                  "Plan for a CPU that need not be here: a YAML file with its nodes, "
                  "domains_per_node, cores_per_domain, l2_kib and l3_kib")
      .type_name("FILE")
      .excludes(device);
  command.add_flag("--all", arguments->all, "List the config's default values too");
  command.add_flag("--layers", arguments->layers,
                   "List each layer of a large model, not its blocks alone");
  command.add_option("--print-after", arguments->print_after,
                     "Print the graphs after a compiler pass, or all");
  command.add_flag("--program", arguments->program, "Print what the device runs, step by step");
  command.add_option("--plot", arguments->plot, "Write the learning-rate curve to this SVG file")
      .type_name("FILE");
  command.add_flag("--overwrite", arguments->overwrite, "Replace a plot that exists");
  command
      .add_option(
          "--world-size", arguments->world_size,
          "Plan for so many processes; else as many as TF_CONFIG, torchrun, Slurm or mpirun set")
      .in_range(1, 1 << 20);
  add_simulation(command, *arguments);
  command.run([arguments] {
    take_gpus(*arguments);
    return plan(*arguments);
  });
}

}  // namespace trainer::app
