#include "commands/report/command.h"

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/run_links.h"
#include "inference/open_model/source.h"
#include "inference/predict/mistakes.h"
#include "results/crossval/crossval_result.h"
#include "results/pages/html.h"
#include "results/sweeps/summary.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

inference::MistakeOptions mistake_options(const ReportArguments& arguments,
                                          const Context& context) {
  return {static_cast<std::size_t>(arguments.mistakes),
          arguments.seconds,
          arguments.last ? results::CheckpointChoice::kLast : results::CheckpointChoice::kDefault,
          {arguments.overrides, context.environment, context.warn}};
}

// Warns of mistakes that could not be looked for. Returns whether they could.
bool check_mistakes(const results::Mistakes& mistakes, const Context& context) {
  if (mistakes.failed) {
    context.warn(concat("the report has no mistakes and no pictures: ", mistakes.reason,
                        "; --mistakes 0 leaves them out"));
  }
  return !mistakes.failed;
}

// Warns of points whose files could not be read. Returns whether there are none.
bool check_points(const results::Summary& summary, const Context& context) {
  for (const results::PointState& point : summary.points) {
    if (point.kind != results::PointState::Kind::kDamaged) continue;
    context.warn(concat("the report has no results of ", point.point.name, ": ", point.message));
  }
  return !results::has_damaged(summary.points);
}

// Returns whether all parts of the report were made.
bool report_run(const ReportArguments& arguments, const Path& folder, const Path& output,
                const Context& context) {
  inference::check_is_run(folder);
  const results::RunFiles run = results::read_run(folder);
  results::Mistakes mistakes;
  if (arguments.mistakes == 0) {
    mistakes.reason = "--mistakes 0";
  } else {
    mistakes = inference::find_mistakes(folder, mistake_options(arguments, context));
  }
  std::optional<Path> plots;
  if (!arguments.plots.empty()) plots = arguments.plots;
  if (!plots && arguments.output.empty()) plots = folder / "plots";
  results::write_report(results::run_report(run, mistakes), output, plots);
  return check_mistakes(mistakes, context);
}

// The mistakes of each fold are found on the fold, with the checkpoint that predicted it. Returns
// whether all parts of the report were made.
bool report_crossval(const ReportArguments& arguments, const Path& folder, const Path& output,
                     const Context& context) {
  if (arguments.last) {
    throw ConfigError({},
                      "--last needs a run or a sweep; a cross-validation has the predictions of "
                      "one kind of checkpoint");
  }
  const results::SweepPlan plan = results::read_plan(folder);
  const std::size_t count = plan.points.size();
  inference::MistakeOptions options = mistake_options(arguments, context);
  options.checkpoint = results::read_crossval(folder).checkpoint;
  options.split = Split::kValidation;
  options.most = (options.most + count - 1) / count;
  options.seconds /= static_cast<double>(count);
  std::vector<results::Mistakes> folds;
  bool is_whole = true;
  for (std::size_t fold = 0; fold < count && arguments.mistakes > 0; ++fold) {
    folds.push_back(inference::find_mistakes(folder / plan.points[fold].name, options));
    folds.back().split = concat("fold ", fold + 1);
    is_whole = check_mistakes(folds.back(), context) && is_whole;
  }
  const results::Summary summary =
      results::summarize(plan, results::collect(plan), arguments.to_accuracy, options.checkpoint);
  results::write_report(results::crossval_report(summary, folds, folder), output, folder);
  return is_whole && check_points(summary, context);
}

// Returns whether all parts of the report were made.
bool report_sweep(const ReportArguments& arguments, const Path& folder, const Path& output,
                  const Context& context) {
  const results::SweepPlan plan = results::read_plan(folder);
  const results::Summary summary = results::summarize(
      plan, results::collect(plan), arguments.to_accuracy,
      arguments.last ? results::CheckpointChoice::kLast : results::CheckpointChoice::kBest);
  results::write_report(results::sweep_report(summary), output, folder);
  return check_points(summary, context);
}

}  // namespace

void fields(results::FieldVisitor& v, ReportEvent& event) {
  v.event("report");
  v("output", event.output, "The page.");
  v("complete", event.is_complete, "Whether all parts of it could be made.");
}

int execute(const ReportArguments& arguments, const Context& context) {
  const Path folder = arguments.folder;
  Path output = arguments.output;
  const bool is_sweep = std::filesystem::exists(folder / "sweep.json");
  if (output.empty() || is_sweep) checkpoint::check_no_links(folder);
  if (output.empty()) {
    output = folder / "report.html";
  } else {
    check_output_path("--output", output, arguments.overwrite);
  }
  bool is_whole = true;
  if (std::filesystem::exists(folder / results::kCrossvalFile)) {
    is_whole = report_crossval(arguments, folder, output, context);
  } else if (is_sweep) {
    is_whole = report_sweep(arguments, folder, output, context);
  } else {
    is_whole = report_run(arguments, folder, output, context);
  }
  if (arguments.json) {
    results::print_json(ReportEvent{output.string(), is_whole}, context.out);
  } else {
    context.out << printable(output.string()) << '\n';
  }
  return is_whole ? kExitOk : kExitData;
}

}  // namespace trainer::commands
