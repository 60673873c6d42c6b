#include "commands/sweep/command.h"

#include <utility>

#include "base/error.h"
#include "commands/new/image_config.h"
#include "commands/sweep/launchers.h"
#include "results/pages/html.h"
#include "results/sweeps/table.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

results::SweepPlan plan_points(const SweepArguments& arguments, const Context& context) {
  const std::string file = find_config(arguments.path, arguments.overrides, context);
  std::vector<results::Axis> axes;
  for (const std::string& text : arguments.over) axes.push_back(results::parse_axis(text));
  const config::Environment& variables = context.environment;
  std::vector<config::Override> overrides = arguments.overrides;
  if (const std::string device = read_variable(variables, "DEVICE"); !device.empty()) {
    overrides.insert(overrides.begin(), {"parallel.device", device, "$DEVICE"});
  }
  // Only its kind of optimizer and schedule matters here; lists would be no values of a run.
  config::Environment plain = variables;
  for (const char* name : {"NUM_GPUS", "BATCH_SIZE", "LEARNING_RATE", "SEEDS"}) plain.erase(name);
  const config::Config config = config::load_config(file, overrides, plain).config;
  for (auto& axis :
       results::axes_of_environment(variables, axes, results::learning_rate_key(config))) {
    axes.push_back(std::move(axis));
  }
  return results::plan_sweep(file, std::move(axes), overrides, variables, arguments.folder,
                             arguments.max_points);
}

}  // namespace

int execute(const SweepArguments& arguments, const Context& context) {
  const results::SweepPlan plan = plan_points(arguments, context);
  if (arguments.launcher != "local" || !arguments.collect) results::write_plan(plan);
  if (arguments.launcher == "slurm") {
    context.out << slurm_script(plan, find_program());
    return kExitOk;
  }
  if (arguments.launcher == "kubernetes") {
    context.out << kubernetes_jobs(plan, arguments.image);
    return kExitOk;
  }
  const auto checkpoint =
      arguments.last ? results::CheckpointChoice::kLast : results::CheckpointChoice::kBest;
  std::vector<results::PointState> points = train_or_collect(arguments, plan, checkpoint, context);
  const int collected = results::has_damaged(points) ? kExitData : kExitOk;
  const int code = arguments.collect ? collected : results::find_exit_code(points);
  const results::Summary summary =
      results::summarize(plan, std::move(points), arguments.to_accuracy, checkpoint);
  results::write_tables(summary, plan.folder);
  results::write_report(results::sweep_report(summary), plan.folder / "report.html", plan.folder);
  if (arguments.json) {
    results::print_json(summary, context.out);
  } else {
    context.out << '\n';
    results::print_summary(summary, plan.folder, context.terminal_width(), context.out);
  }
  return code;
}

}  // namespace trainer::commands
