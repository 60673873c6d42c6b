#include "commands/crossval/command.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "commands/crossval/crossval.h"
#include "commands/new/image_config.h"
#include "commands/report/html.h"
#include "commands/sweep/sweep_print.h"
#include "commands/sweep/table.h"

namespace trainer::commands {

int execute(const CrossvalArguments& arguments, const Context& context) {
  const SweepPlan plan = plan_crossval(find_config(arguments.path, arguments.overrides, context),
                                       arguments.folds, arguments.overrides, context.environment,
                                       arguments.folder, arguments.decisions);
  if (arguments.collect) {
    check_runs(plan);
  } else {
    write_plan(plan);
  }
  const auto scored = arguments.best ? ScoredCheckpoint::kBest : ScoredCheckpoint::kLast;
  std::vector<PointState> points = train_or_collect(arguments, plan, scored, context);
  const auto missing =
      std::ranges::count_if(points, [](const PointState& point) { return !point.is_done(); });
  const int code = find_exit_code(points);
  const Summary summary = summarize(plan, std::move(points), std::nullopt, scored);
  write_tables(summary, plan.folder);
  const Path report = plan.folder / "report.html";
  if (missing > 0) {
    write_sweep_report(summary, plan.folder, report);
    if (!arguments.json) {
      context.out << '\n';
      print_summary(summary, plan.folder, context.terminal_width(), context.out);
    }
    context.warn(concat(missing, " of ", plan.points.size(), " folds have no results; ",
                        arguments.collect ? "give the same command without --collect to train them"
                                          : "give the same command again to go on",
                        has_damaged(summary.points) ? ", after you removed the damaged ones" : ""));
    return code;
  }
  const CrossvalResult result =
      collect_folds(plan, arguments.best ? CheckpointChoice::kBest : CheckpointChoice::kLast,
                    arguments.decisions, context.warn);
  write_crossval_report(summary, {}, plan.folder, report);
  if (arguments.json) {
    context.out << crossval_json(result) << std::endl;
  } else {
    if (!arguments.quiet && !arguments.collect) context.out << '\n';
    print_crossval(result, plan.folder, arguments.quiet, context.out);
  }
  return kExitOk;
}

}  // namespace trainer::commands
