#include "commands/evaluate/command.h"

#include <optional>

#include "base/error.h"
#include "commands/evaluate/decisions.h"
#include "commands/evaluate/follow.h"
#include "engine/evaluate.h"
#include "hooks/data_report.h"
#include "inference/decisions/thresholds.h"
#include "inference/open_model/run_archive.h"
#include "inference/predict/ensemble.h"
#include "model/build_model.h"
#include "results/decisions/stored.h"
#include "results/evaluation/evaluation_report.h"
#include "results/write_json.h"
#include "train/open.h"

namespace trainer::commands {
namespace {

// Returns `arguments` for the model of `run`.
ModelArguments make_model_arguments(const EvaluateArguments& arguments, const std::string& run) {
  ModelArguments model = arguments;
  model.model = run;
  return model;
}

// Prints and stores the limit of novelty.
void evaluate_novelty(const EvaluateArguments& arguments, const std::string& run,
                      const inference::OpenedModel& opened, Split split, const Context& context) {
  std::string stored;
  const results::NoveltyReport report =
      inference::evaluate_novelty(opened, split, arguments.novelty_options, stored);
  if (!report.contradiction.empty()) context.warn(concat(run, ": ", report.contradiction));
  if (arguments.json) {
    const auto file = stored.empty() ? std::nullopt : std::optional(stored);
    results::print_json(results::ResultEvent<results::NoveltyReport>{"novelty", run, report, file},
                        context.out);
    return;
  }
  context.out << (arguments.quiet ? "" : "\n")
              << results::render_text(
                     results::show_novelty(report, stored.empty() ? "" : "; stored in " + stored));
}

int evaluate_model(const EvaluateArguments& arguments, const std::string& run,
                   const Context& context) {
  if (arguments.follow) return follow(arguments, run, context);
  const inference::OpenedModel opened = open_model(make_model_arguments(arguments, run), context);
  std::optional<engine::ThresholdGoal> goal;
  if (!arguments.thresholds.empty()) {
    goal = inference::parse_thresholds(arguments.thresholds, opened, arguments.split);
  }
  const inference::OpenedSplit split = inference::open_split_or_default(
      opened, goal ? Split::kValidation : parse_split(arguments.split));
  if (arguments.novelty) inference::check_novelty(opened, split.split);
  context.warn(hooks::left_out(split.files(), split.split));
  const graph::Graph model = model::build_model(opened.config, train::sample_spec(split.data));
  engine::Engine engine(model, opened.config, engine::open_backends(opened.config, opened.platform),
                        engine::Use::kEvaluate);
  engine.load(opened.file, opened.path);
  engine::EvaluateOptions options = engine::evaluate_options(opened.config);
  options.flip = arguments.flip;
  Decisions decisions(arguments.decisions, opened, engine, options, split.split, split.dataset());
  options = decisions.evaluate_options();
  results::LabelThresholds thresholds;
  const std::optional<engine::Metrics> metrics =
      split.dataset().spec().is_multi_label()
          ? inference::evaluate_labels(engine, split.dataset(), opened, goal, options, thresholds)
          : engine::evaluate(engine, split.dataset(), options);
  context.warn(engine::why_not_finite(*metrics, opened.config.data, split.split, split.dataset()));
  context.warn(inference::note_on_predictions(opened));
  const results::EvaluationReport report{
      run, opened.step, opened.checkpoint, split.split, split.data.classes, *metrics, thresholds};
  if (arguments.json) {
    results::print_json(report, context.out);
  } else {
    context.out << results::render_text(results::describe_evaluation(report, arguments.quiet));
  }
  decisions.print({run, arguments.json, arguments.quiet, context.out});
  if (arguments.novelty) evaluate_novelty(arguments, run, opened, split.split, context);
  return kExitOk;
}

int evaluate_mean(const EvaluateArguments& arguments, const std::string& run,
                  const Context& context) {
  const inference::EnsembleScores scores = inference::evaluate_ensemble(
      open_models(make_model_arguments(arguments, run), arguments.ensemble, context),
      parse_split(arguments.split), arguments.flip);
  if (arguments.json) {
    results::print_json(scores, context.out);
  } else {
    inference::print_ensemble(scores, arguments.quiet, context.out);
  }
  return kExitOk;
}

}  // namespace

int execute(const EvaluateArguments& arguments, const Context& context) {
  const std::vector<std::string>& runs = arguments.runs;
  if (arguments.follow && runs.size() > 1) {
    throw ConfigError({}, "--follow waits for the checkpoints of one run; evaluate ", runs[1],
                      " by a command of its own");
  }
  if (!arguments.ensemble.empty()) {
    if (runs.size() > 1) {
      throw ConfigError({}, "--ensemble: give one run before it, and ", runs[1],
                        " in its list, with commas between");
    }
    return evaluate_mean(arguments, runs[0], context);
  }
  // One after another, each below its name where there are several.
  for (const std::string& run : runs) {
    if (runs.size() > 1 && !arguments.json) {
      context.out << (&run == &runs.front() || arguments.quiet ? "" : "\n") << run << ":\n";
    }
    if (const int code = evaluate_model(arguments, run, context); code != kExitOk) return code;
  }
  return kExitOk;
}

}  // namespace trainer::commands
