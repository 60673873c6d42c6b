#include "engine/evaluate.h"

#include <chrono>
#include <iostream>

#include "base/error.h"
#include "base/files/output_buffer.h"
#include "options/commands.h"
#include "commands/ensemble/ensemble.h"
#include "commands/evaluate/decisions.h"
#include "commands/evaluate/evaluation_report.h"
#include "commands/evaluate/follow.h"
#include "commands/evaluate/thresholds.h"
#include "commands/open_model/open_model.h"
#include "commands/open_model/run_archive.h"
#include "hooks/data_report.h"
#include "model/build_model.h"
#include "options/options.h"
#include "train/open.h"
#include "train/signals.h"

namespace trainer::app {
namespace {

int follow(const EvaluateArguments& arguments) {
  const train::StartupSignals signals;
  const FinishOutput output;  // while a signal still ends with kExitInterrupted
  if (commands::is_config(arguments.model)) {
    throw ConfigError({}, concat("--follow waits for the checkpoints of a run; name its folder in "
                                 "place of ",
                                 arguments.model));
  }
  commands::FollowOptions options{
      arguments.model, parse_split(arguments.split), arguments.overrides, environment(), {}, warn};
  const config::Duration never{1e9, config::Duration::Unit::kSeconds};  // there are no steps to log
  if (arguments.json) {
    options.hooks.push_back(
        hooks::make_json_hook(std::cout, never, std::chrono::system_clock::now));
  } else {
    options.hooks.push_back(hooks::make_progress_hook(std::cout, false, arguments.quiet, never,
                                                      {{}, std::chrono::system_clock::now, {}}));
  }
  const commands::Followed followed = commands::follow(std::move(options));
  commands::print_followed(followed, arguments.model, arguments.json, std::cout);
  return followed.reason == hooks::FinishReason::kInterrupted ? kExitInterrupted : kExitOk;
}

}  // namespace

int evaluate(const EvaluateArguments& arguments) {
  if (arguments.follow) return follow(arguments);
  const commands::OpenedModel opened = open_model(arguments);
  std::optional<engine::ThresholdGoal> goal;
  if (!arguments.thresholds.empty()) {
    goal = commands::parse_thresholds(arguments.thresholds, opened, arguments.split);
  }
  const commands::OpenedSplit split = commands::open_split_or_default(
      opened, goal ? Split::kValidation : parse_split(arguments.split));
  warn(hooks::left_out(split.files(), split.split));
  const graph::Graph model = model::build_model(opened.config.model, opened.config.data,
                                                train::sample_spec(split.data), opened.config.seed);
  engine::Replicas engine(model, opened.config, engine::open_backends(opened.config),
                          engine::Engine::Use::kEvaluate);
  engine.load(opened.file, opened.path);
  engine::EvaluateOptions options = engine::evaluate_options(opened.config);
  options.flip = arguments.flip;
  commands::Decisions decisions(arguments.decisions, opened, engine, options, split.split,
                                split.dataset());
  options = decisions.evaluate_options();
  commands::LabelThresholds thresholds;
  const std::optional<engine::Metrics> metrics =
      opened.is_multi_label() ? commands::evaluate_labels(engine, split.dataset(), opened, goal,
                                                          options, thresholds, warn)
                              : engine::evaluate(engine, split.dataset(), options);
  warn(engine::why_not_finite(*metrics, opened.config.data, split.split, split.dataset()));
  warn(commands::note_on_predictions(opened));
  const commands::EvaluationReport report{arguments.model, opened.step,        opened.checkpoint,
                                          split.split,     split.data.classes, *metrics,
                                          thresholds};
  if (arguments.json) {
    commands::print_report_json(report, std::cout);
  } else {
    commands::print_report(report, arguments.quiet, std::cout);
  }
  decisions.print({arguments.model, arguments.json, arguments.quiet, std::cout});
  return kExitOk;
}

namespace {

int evaluate_mean(const EvaluateArguments& arguments) {
  const commands::EnsembleScores scores =
      commands::evaluate_ensemble(open_models(arguments, arguments.ensemble),
                                  parse_split(arguments.split), arguments.flip, warn);
  if (arguments.json) {
    std::cout << commands::ensemble_json(scores) << std::endl;
  } else {
    commands::print_ensemble(scores, arguments.quiet, std::cout);
  }
  return kExitOk;
}

// One after another, each below its name where there are several.
int evaluate_all(EvaluateArguments arguments, const std::vector<std::string>& runs) {
  const commands::DecisionOptions& decisions = arguments.decisions;
  if (!decisions.positive_class.empty() && !decisions.curves && decisions.operating_point.empty()) {
    reject_missing("--positive-class", "--curves or --operating-point");
  }
  if (arguments.follow && runs.size() > 1) {
    throw ConfigError({}, concat("--follow waits for the checkpoints of one run; evaluate ",
                                 runs[1], " by a command of its own"));
  }
  if (!arguments.ensemble.empty()) {
    if (runs.size() > 1) {
      throw ConfigError({}, concat("--ensemble: give one run before it, and ", runs[1],
                                   " in its list, with commas between"));
    }
    arguments.model = runs[0];
    return evaluate_mean(arguments);
  }
  for (const std::string& run : runs) {
    if (runs.size() > 1 && !arguments.json) {
      std::cout << (&run == &runs.front() || arguments.quiet ? "" : "\n") << run << ":\n";
    }
    arguments.model = run;
    if (const int code = evaluate(arguments); code != kExitOk) return code;
  }
  return kExitOk;
}

// --follow and how long it waits for what.
void add_follow(const Command& command, EvaluateArguments& arguments) {
  const Option follow =
      command
          .add_flag("--follow", arguments.follow,
                    "Evaluate each new checkpoint of a run that is going on, until it ends")
          .excludes("--best")
          .excludes("--last")
          .excludes("--weights")
          .excludes("--average")
          .excludes("--flip")
          .excludes("--calibrate")
          .excludes("--curves")
          .excludes("--operating-point")
          .excludes("--abstain")
          .excludes("--thresholds")
          .excludes("--ensemble");
  const auto seconds = [&](const char* name, const char* key, const char* help) {
    command
        .add_action(
            name,
            [&arguments, key, name](const std::string& value) {
              arguments.overrides.push_back({key, value, name});
            },
            help)
        .type_name("SECONDS")
        .not_negative()
        .needs(follow);
  };
  seconds("--start-delay", "evaluate.start_delay_secs",
          "Before the first evaluation (evaluate.start_delay_secs)");
  seconds("--throttle", "evaluate.throttle_secs",
          "Between the starts of two evaluations (evaluate.throttle_secs)");
  seconds("--timeout", "evaluate.timeout_secs",
          "Without a new checkpoint, until it gives up (evaluate.timeout_secs)");
}

}  // namespace

void add_evaluate(CommandLine& line) {
  const auto arguments = std::make_shared<EvaluateArguments>();
  const auto runs = std::make_shared<std::vector<std::string>>();
  const Command command =
      line.add_command("evaluate", "Metrics of runs, checkpoints or configs on a split");
  command.add_option("runs", *runs, "Run folders, checkpoints or config files (YAML)").required();
  add_model(command, *arguments);
  command
      .add_option("--split", arguments->split,
                  "test, validation or train; when left out test, or validation where there is no "
                  "test split; with --follow what training evaluates")
      .choices({"test", "validation", "train"});
  command.add_flag("--flip", arguments->flip,
                   "Mean of the probabilities and losses of each image and its mirror image, left "
                   "to right");
  command.add_flag(
      "--calibrate", arguments->decisions.calibrate,
      "Also how far probabilities agree with the share of correct predictions, and the "
      "temperature, found on the validation split, that corrects them; stored in the "
      "run, where predict and export use it");
  command
      .add_option("--thresholds", arguments->thresholds,
                  "Several labels per image: find a threshold for each label on the validation "
                  "split, and keep it in the run for evaluate and predict: f1, or a goal as of "
                  "--operating-point")
      .type_name("GOAL");
  command.add_flag("--curves", arguments->decisions.curves,
                   "Also ROC and precision-recall curves with their areas; stored in the run, for "
                   "its report");
  command
      .add_option(
          "--operating-point", arguments->decisions.operating_point,
          "Also the threshold of the positive class, found on the validation split: "
          "sensitivity=0.95, specificity=0.9 or cost=FP:FN; or cost=FILE.csv, a table of what "
          "each class costs by the true class; stored in the run, where predict uses the costs, "
          "and the threshold of two classes")
      .type_name("CRITERION");
  command
      .add_option("--abstain", arguments->decisions.abstain,
                  "Also the confidence, found on the validation split, below which no class is "
                  "given so that at most this share of the others is wrong; stored in the run, for "
                  "its report")
      .type_name("ERROR")
      .in_range(0.0, 1.0);
  command
      .add_option(
          "--positive-class", arguments->decisions.positive_class,
          "The class of --curves and --operating-point; of two classes the second when left "
          "out")
      .type_name("CLASS");
  const Option ensemble = add_ensemble(command, arguments->ensemble);
  for (const char* other :
       {"--calibrate", "--curves", "--operating-point", "--abstain", "--thresholds"}) {
    ensemble.excludes(other);
  }
  add_follow(command, *arguments);
  add_overrides(command, arguments->overrides, Shorthands::kDevice);
  command.add_flag("--json", arguments->json, "One JSON object per result on standard output");
  command.add_flag("--quiet", arguments->quiet, "Only the line of results");
  command.run([arguments, runs] { return evaluate_all(*arguments, *runs); });
}

}  // namespace trainer::app
