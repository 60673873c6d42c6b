#include "commands/sweep/sweep.h"

#include <iostream>

#include "base/error.h"
#include "options/commands.h"
#include "commands/report/html.h"
#include "commands/sweep/launchers.h"
#include "commands/sweep/sweep_print.h"
#include "commands/sweep/table.h"
#include "options/options.h"

namespace trainer::app {
namespace {

using commands::PointState;

struct SweepArguments : ConfigArguments {
  std::vector<std::string> over;
  std::string folder;
  std::string launcher = "local";
  std::string image = "registry.example/trainer:latest";
  bool collect = false;
  std::optional<double> to_accuracy;
  bool last = false;
  std::int64_t max_points = commands::kMaxPoints;
};

commands::SweepPlan make_plan(const SweepArguments& arguments) {
  const std::string file = find_config(arguments.path, arguments.overrides);
  std::vector<commands::Axis> axes;
  for (const std::string& text : arguments.over) axes.push_back(commands::parse_axis(text));
  config::Environment variables = environment();
  std::vector<config::Override> overrides = arguments.overrides;
  const auto device = variables.find("DEVICE");
  if (device != variables.end() && !device->second.empty()) {
    overrides.insert(overrides.begin(), {"parallel.device", device->second, "$DEVICE"});
  }
  // Only its kind of optimizer and schedule matters here; lists would be no values of a run.
  config::Environment plain = variables;
  for (const char* name : {"NUM_GPUS", "BATCH_SIZE", "LEARNING_RATE", "SEEDS"}) plain.erase(name);
  const config::Config config = config::load_config(file, overrides, plain).config;
  for (auto& axis :
       commands::axes_of_environment(variables, axes, commands::learning_rate_key(config))) {
    axes.push_back(std::move(axis));
  }
  return commands::plan_sweep(file, std::move(axes), overrides, variables, arguments.folder,
                              arguments.max_points);
}

int sweep(const SweepArguments& arguments) {
  const commands::SweepPlan plan = make_plan(arguments);
  const Path program = std::filesystem::read_symlink("/proc/self/exe");
  if (arguments.launcher != "local" || !arguments.collect) commands::write_plan(plan);
  if (arguments.launcher == "slurm") {
    std::cout << commands::slurm_script(plan, program);
    return kExitOk;
  }
  if (arguments.launcher == "kubernetes") {
    std::cout << commands::kubernetes_jobs(plan, arguments.image);
    return kExitOk;
  }
  const auto checkpoint =
      arguments.last ? commands::ScoredCheckpoint::kLast : commands::ScoredCheckpoint::kBest;
  commands::SweepPrinter printer({arguments.json, arguments.quiet, is_terminal(), checkpoint},
                                 plan.points.size(), std::cout);
  std::vector<PointState> points =
      arguments.collect ? commands::collect(plan) : commands::run_sweep(plan, program, printer);
  const int collected = commands::has_damaged(points) ? kExitData : kExitOk;
  const int code = arguments.collect ? collected : commands::find_exit_code(points);
  const commands::Summary summary =
      commands::summarize(plan, std::move(points), arguments.to_accuracy, checkpoint);
  commands::write_tables(summary, plan.folder);
  commands::write_sweep_report(summary, plan.folder, plan.folder / "report.html");
  if (arguments.json) {
    std::cout << commands::table_json(summary) << std::endl;
  } else {
    std::cout << '\n';
    commands::print_summary(summary, plan.folder, std::cout);
  }
  return code;
}

}  // namespace

void add_sweep(CommandLine& line) {
  const auto arguments = std::make_shared<SweepArguments>();
  const Command command = line.add_command(
      "sweep", "Train every combination of some values: a run each, and one table");
  command.add_option("config", arguments->path, kConfigHelp).required();
  command
      .add_option("--over", arguments->over,
                  "A key and its values; also lists in NUM_GPUS, BATCH_SIZE, LEARNING_RATE, SEEDS")
      .type_name("KEY=V1,V2")
      .one_value_each();
  command.add_option("--dir", arguments->folder,
                     "Folder of the sweep; runs/<name>_sweep when left out");
  command
      .add_option("--launcher", arguments->launcher,
                  "local trains here; slurm and kubernetes print a job array or Job manifests")
      .choices({"local", "slurm", "kubernetes"});
  command
      .add_option("--max-points", arguments->max_points,
                  concat("How many points the sweep may have; default ", commands::kMaxPoints))
      .type_name("N")
      .at_least_one();
  command.add_option("--image", arguments->image, "Container image of --launcher kubernetes");
  command.add_flag("--collect", arguments->collect, "The table of what has been trained, no more");
  command
      .add_option("--to-accuracy", arguments->to_accuracy,
                  "Also time and cost to this accuracy (0 to 1), and the cheapest point")
      .in_range(0.0, 1.0);
  command.add_flag("--last", arguments->last,
                   "Accuracy and loss of the last checkpoints, also if runs have kept best ones");
  add_overrides(command, arguments->overrides);
  command.remove_option("--run-dir");  // each point has a folder of its own in --dir
  command.add_flag("--json", arguments->json,
                   "One JSON object per line on standard output, nothing else");
  command.add_flag("--quiet", arguments->quiet, "No progress");
  command.run([arguments] { return sweep(*arguments); });
}

}  // namespace trainer::app
