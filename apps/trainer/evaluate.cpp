#include "engine/evaluate.h"

#include <chrono>
#include <iostream>

#include "base/error.h"
#include "base/files/output_buffer.h"
#include "base/text.h"
#include "commands.h"
#include "commands/ensemble/ensemble.h"
#include "commands/evaluate/calibrate.h"
#include "commands/evaluate/curves.h"
#include "commands/evaluate/evaluation_report.h"
#include "commands/evaluate/follow.h"
#include "commands/evaluate/operate.h"
#include "commands/evaluate/positive_class.h"
#include "commands/evaluate/scored_split.h"
#include "commands/evaluate/thresholds.h"
#include "commands/open_model/open_model.h"
#include "commands/open_model/run_archive.h"
#include "commands/open_model/stored_result.h"
#include "hooks/data_report.h"
#include "model/build_model.h"
#include "options.h"
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

// What the results beside the metrics are computed from.
struct EvaluatedModel {
  const commands::OpenedModel& opened;
  engine::Replicas& engine;
  engine::EvaluateOptions options;
  Split split;
  engine::LabelledLogits scores;  // of this split
  std::optional<engine::LabelledLogits> validation = {};
};

// Evaluates the validation split when its scores are needed first.
const engine::LabelledLogits& find_validation_scores(EvaluatedModel& model, const char* option) {
  if (model.split == Split::kValidation) return model.scores;
  if (!model.validation) {
    model.validation =
        commands::score_validation(model.opened, model.engine, model.options, option);
  }
  return *model.validation;
}

void calibrate(const EvaluateArguments& arguments, EvaluatedModel& model) {
  const commands::CalibrationReport report =
      commands::calibrate(find_validation_scores(model, "--calibrate"), model.split, model.scores);
  const std::string stored = commands::store_calibration(model.opened, arguments.flip, report);
  if (arguments.json) {
    commands::print_calibration_json(report, arguments.model, stored, std::cout);
  } else {
    std::cout << (arguments.quiet ? "" : "\n");
    commands::print_calibration(report, stored, arguments.quiet, std::cout);
  }
}

// Returns what --thresholds asks for; nullopt without it. Throws ConfigError if it does not fit.
std::optional<engine::ThresholdGoal> parse_thresholds(const EvaluateArguments& arguments,
                                                      const commands::OpenedModel& opened) {
  if (arguments.thresholds.empty()) return std::nullopt;
  const auto goal = engine::parse_threshold_goal(arguments.thresholds);
  if (!goal) {
    throw ConfigError({}, concat("--thresholds is ", arguments.thresholds,
                                 "; expected f1, or sensitivity=S with S above 0 and at most 1"));
  }
  if (!opened.is_multi_label()) {
    throw ConfigError({}, concat("--thresholds is for several labels per image, and the model of ",
                                 opened.path, " has one class per image"));
  }
  if (!arguments.split.empty() && arguments.split != "validation") {
    throw ConfigError({}, concat("--thresholds are found on the validation split; remove --split ",
                                 arguments.split));
  }
  if (!commands::find_run_folder(opened)) {
    throw ConfigError({}, concat("--thresholds are kept in a run folder, and ",
                                 printable(opened.path), " is not a run"));
  }
  return goal;
}

// Evaluates with the thresholds of the run, or finds and writes them for a goal.
engine::Metrics evaluate_labels(engine::Replicas& engine, const data::Dataset& dataset,
                                const commands::OpenedModel& opened,
                                const std::optional<engine::ThresholdGoal>& goal,
                                engine::EvaluateOptions options,
                                commands::LabelThresholds& thresholds) {
  if (!goal) {
    thresholds = commands::read_thresholds(opened, options.flip);
    options.thresholds = thresholds.logits;
    return *engine::evaluate(engine, dataset, options);
  }
  const auto labels = static_cast<std::int64_t>(opened.classes.size());
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  engine::MultiLabelAccumulator scores(labels, kAll);
  options.each_batch = [&](const data::Batch& batch, std::span<const float> logits) {
    scores.add(logits, {static_cast<const float*>(batch.labels), logits.size()});
  };
  engine::Metrics metrics = *engine::evaluate(engine, dataset, options);
  commands::check_scores(scores.logits(), labels, Split::kValidation);
  thresholds = commands::find_thresholds(opened, scores, *goal);
  if (!thresholds.kept.empty()) {
    warn(concat("no validation sample has ", join(thresholds.kept),
                "; the threshold of this label stays a probability of 0.5"));
  }
  commands::write_thresholds(opened, options.flip, thresholds);
  engine::MultiLabelAccumulator decided(labels, kAll, thresholds.logits);
  decided.add(scores.logits(), scores.targets());
  metrics.multi_label = decided.result();
  return metrics;
}

void draw_curves(const EvaluateArguments& arguments, const EvaluatedModel& model) {
  const std::vector<std::string>& classes = model.opened.classes;
  const bool is_of_all = classes.size() != 2 && arguments.positive_class.empty();
  const std::int64_t positive =
      is_of_all ? -1 : commands::find_positive_class(classes, arguments.positive_class);
  const commands::CurvesReport report =
      commands::compute_curves(model.scores, model.split, classes, positive);
  const std::string stored = commands::store_curves(model.opened, arguments.flip, report);
  if (arguments.json) {
    commands::print_curves_json(report, arguments.model, stored, std::cout);
  } else {
    std::cout << (arguments.quiet ? "" : "\n");
    commands::print_curves(report, stored, std::cout);
  }
}

void find_operating_point(const EvaluateArguments& arguments, EvaluatedModel& model) {
  const std::vector<std::string>& classes = model.opened.classes;
  const std::int64_t positive = commands::find_positive_class(classes, arguments.positive_class);
  const commands::OperatingReport report = commands::find_operating_report(
      arguments.operating_point, positive, classes.at(static_cast<std::size_t>(positive)),
      find_validation_scores(model, "--operating-point"), model.split, model.scores);
  const std::string stored = commands::store_operating_point(model.opened, arguments.flip, report);
  if (arguments.json) {
    commands::print_operating_point_json(report, arguments.model, stored, std::cout);
  } else {
    std::cout << (arguments.quiet ? "" : "\n");
    commands::print_operating_point(report, stored, std::cout);
  }
}

// Returns the first option that needs the scores of all samples, or "".
std::string option_of_scores(const EvaluateArguments& arguments) {
  if (arguments.calibrate) return "--calibrate";
  if (arguments.curves) return "--curves";
  return arguments.operating_point.empty() ? "" : "--operating-point";
}

// Rejects options that cannot be followed, before the time of an evaluation is spent.
void check_decision_options(const EvaluateArguments& arguments,
                            const commands::OpenedModel& opened) {
  const bool has_point = !arguments.operating_point.empty();
  if (has_point) commands::read_operating_criterion(arguments.operating_point);
  if (has_point || !arguments.positive_class.empty()) {
    commands::find_positive_class(opened.classes, arguments.positive_class);
  }
}

}  // namespace

int evaluate(const EvaluateArguments& arguments) {
  if (arguments.follow) return follow(arguments);
  const commands::OpenedModel opened = open_model(arguments);
  const std::optional<engine::ThresholdGoal> goal = parse_thresholds(arguments, opened);
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
  EvaluatedModel evaluated{opened, engine, options, split.split, {}};
  const std::string option = option_of_scores(arguments);
  if (!option.empty()) {
    commands::check_class_probabilities(opened, engine, split.dataset(), option);
    check_decision_options(arguments, opened);
    options.each_batch = commands::keep_scores(split.dataset(), engine.outputs(), evaluated.scores);
  }
  commands::LabelThresholds thresholds;
  const std::optional<engine::Metrics> metrics =
      opened.is_multi_label()
          ? evaluate_labels(engine, split.dataset(), opened, goal, options, thresholds)
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
  if (!option.empty()) commands::check_scores(evaluated.scores, split.split);
  if (arguments.calibrate) calibrate(arguments, evaluated);
  if (arguments.curves) draw_curves(arguments, evaluated);
  if (!arguments.operating_point.empty()) find_operating_point(arguments, evaluated);
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
  if (!arguments.positive_class.empty() && !arguments.curves && arguments.operating_point.empty()) {
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
    const std::string other =
        arguments.thresholds.empty() ? option_of_scores(arguments) : "--thresholds";
    if (!other.empty()) {
      throw ConfigError({}, concat("--ensemble only evaluates; ", other, " is for one run"));
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
      "--calibrate", arguments->calibrate,
      "Also how far probabilities agree with the share of correct predictions, and the "
      "temperature, found on the validation split, that corrects them; stored in the "
      "run, where predict and export use it");
  command
      .add_option("--thresholds", arguments->thresholds,
                  "Several labels per image: find a threshold for each label on the validation "
                  "split, and keep it in the run for evaluate and predict: f1, or sensitivity=S")
      .type_name("GOAL");
  add_ensemble(command, arguments->ensemble);
  command.add_flag("--curves", arguments->curves,
                   "Also ROC and precision-recall curves with their areas; stored in the run, for "
                   "its report");
  command
      .add_option(
          "--operating-point", arguments->operating_point,
          "Also the threshold of the positive class, found on the validation split: "
          "sensitivity=0.95, specificity=0.9 or cost=FP:FN; stored in the run, where predict "
          "uses it for two classes")
      .type_name("CRITERION");
  command
      .add_option(
          "--positive-class", arguments->positive_class,
          "The class of --curves and --operating-point; of two classes the second when left "
          "out")
      .type_name("CLASS");
  add_follow(command, *arguments);
  add_overrides(command, arguments->overrides, Shorthands::kDevice);
  command.add_flag("--json", arguments->json, "One JSON object per result on standard output");
  command.add_flag("--quiet", arguments->quiet, "Only the line of results");
  command.run([arguments, runs] { return evaluate_all(*arguments, *runs); });
}

}  // namespace trainer::app
