#include "commands/crossval/command.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "commands/crossval/crossval.h"
#include "commands/new/image_config.h"
#include "commands/sweep/sweep_print.h"
#include "results/pages/html.h"
#include "results/sweeps/table.h"
#include "results/write_json.h"

namespace trainer::commands {

int execute(const CrossvalArguments& arguments, const Context& context) {
  const results::SweepPlan plan = plan_crossval(
      find_config(arguments.path, arguments.overrides, context), arguments.folds,
      arguments.overrides, context.environment, arguments.folder, arguments.decisions);
  if (arguments.collect) {
    results::check_runs(plan);
  } else {
    results::write_plan(plan);
  }
  const auto scored =
      arguments.best ? results::ScoredCheckpoint::kBest : results::ScoredCheckpoint::kLast;
  std::vector<results::PointState> points = train_or_collect(arguments, plan, scored, context);
  const auto missing = std::ranges::count_if(
      points, [](const results::PointState& point) { return !point.is_done(); });
  const int code = results::find_exit_code(points);
  const results::Summary summary =
      results::summarize(plan, std::move(points), std::nullopt, scored);
  results::write_tables(summary, plan.folder);
  const Path report = plan.folder / "report.html";
  if (missing > 0) {
    results::write_report(results::sweep_report(summary), report, plan.folder);
    if (!arguments.json) {
      context.out << '\n';
      results::print_summary(summary, plan.folder, context.terminal_width(), context.out);
    }
    context.warn(
        concat(missing, " of ", plan.points.size(), " folds have no results; ",
               arguments.collect ? "give the same command without --collect to train them"
                                 : "give the same command again to go on",
               results::has_damaged(summary.points) ? ", after you removed the damaged ones" : ""));
    return code;
  }
  const results::CrossvalResult result = collect_folds(
      plan, arguments.best ? results::CheckpointChoice::kBest : results::CheckpointChoice::kLast,
      arguments.decisions, context.warn);
  results::write_report(results::crossval_report(summary, {}, plan.folder), report, plan.folder);
  if (arguments.json) {
    results::print_json(result, context.out);
  } else {
    if (!arguments.quiet && !arguments.collect) context.out << '\n';
    results::print_crossval(result, plan.folder, arguments.quiet, context.out);
  }
  return kExitOk;
}

}  // namespace trainer::commands
