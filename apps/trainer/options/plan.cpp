#include "backend/gpu_model.h"
#include "commands/plan/command.h"
#include "options/options.h"

namespace trainer::app {
namespace {

struct PlanOptions : commands::PlanArguments {
  std::string gpus;  // workers to simulate when a link is given, else parallel.gpus
};

// Applies --gpus once all options are read: with --link it is a number of workers.
void take_gpus(PlanOptions& arguments) {
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

void add_simulation(const Command& command, PlanOptions& arguments) {
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
      .add_option("--measured FILE", request.measured,
                  "Take it from the output of benchmark --json or train --json")
      .needs(link)
      .excludes(step_time);
  command.add_option("--seconds", request.seconds, "Time to measure; default 2")
      .needs(link)
      .not_negative();
}

}  // namespace

void add_plan(CommandLine& line) {
  const auto arguments = std::make_shared<PlanOptions>();
  const Command command = line.add_command(
      "plan", "What a config means: values and their origins, layers, steps, memory");
  add_config(command, *arguments);
  const Option device =
      command.add_option("--device GPU", arguments->device,
                         "Plan for a GPU that need not be here: " + backend::gpu_model_names());
  command
      .add_option("--machine FILE", arguments->machine,
                  "Plan for a CPU that need not be here: a YAML file with its nodes, "
                  "domains_per_node, cores_per_domain, l2_kib and l3_kib")
      .excludes(device);
  command.add_flag("--all", arguments->all, "List the config's default values too");
  command.add_flag("--layers", arguments->layers,
                   "List each layer of a large model, not its blocks alone");
  command.add_option("--print-after", arguments->print_after,
                     "Print the graphs after a compiler pass, or all");
  command.add_flag("--program", arguments->program, "Print what the device runs, step by step");
  command.add_option("--plot FILE", arguments->plot,
                     "Write the learning-rate curve to this SVG file");
  command.add_flag("--overwrite", arguments->overwrite, "Replace a plot that exists");
  command
      .add_option(
          "--world-size", arguments->world_size,
          "Plan for so many processes; else as many as TF_CONFIG, torchrun, Slurm or mpirun set")
      .in_range(1, 1 << 20);
  add_simulation(command, *arguments);
  command.run([arguments] {
    take_gpus(*arguments);
    return commands::execute(*arguments, make_context());
  });
}

}  // namespace trainer::app
