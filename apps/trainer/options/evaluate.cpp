#include "commands/evaluate/command.h"
#include "options/options.h"

namespace trainer::app {
namespace {

// --follow and how long it waits for what.
void add_follow(const Command& command, commands::EvaluateArguments& arguments) {
  const Option follow =
      command
          .add_flag("--follow", arguments.follow,
                    "Evaluate each new checkpoint of a run that is going on, until it ends")
          .excludes({"--best", "--last", "--weights", "--average", "--flip", "--calibrate",
                     "--curves", "--operating-point", "--abstain", "--thresholds", "--ensemble"});
  const auto seconds = [&](const char* name, const char* key, const char* help) {
    add_override(command, arguments.overrides, name, key, help).not_negative().needs(follow);
  };
  seconds("--start-delay SECONDS", "evaluate.start_delay_secs",
          "Before the first evaluation (evaluate.start_delay_secs)");
  seconds("--throttle SECONDS", "evaluate.throttle_secs",
          "Between the starts of two evaluations (evaluate.throttle_secs)");
  seconds("--timeout SECONDS", "evaluate.timeout_secs",
          "Without a new checkpoint, until it gives up (evaluate.timeout_secs)");
}

// --novelty with its options.
void add_novelty(const Command& command, commands::EvaluateArguments& arguments) {
  const Option novelty =
      command
          .add_flag("--novelty", arguments.novelty,
                    "Also the distance to the training images, found on the validation split, "
                    "above which an image shows none of the classes; stored in the run, where "
                    "predict uses it")
          .excludes({"--flip", "--ensemble", "--follow"});
  command
      .add_option("--novelty-false-alarms SHARE", arguments.novelty_options.false_alarms,
                  "The share of images of the classes that may lie above it; default 0.05")
      .in_range(0.0001, 0.5)
      .needs(novelty);
  command
      .add_option("--unknown FOLDER", arguments.novelty_options.unknown,
                  "Images of other things, to measure how many of them are detected")
      .needs(novelty);
}

void check_positive_class(const results::DecisionOptions& options) {
  if (!options.positive_class.empty() && !options.curves && options.operating_point.empty()) {
    reject_missing("--positive-class", "--curves or --operating-point");
  }
}

}  // namespace

void add_evaluate(CommandLine& line) {
  const auto arguments = std::make_shared<commands::EvaluateArguments>();
  const Command command =
      line.add_command("evaluate", "Metrics of runs, checkpoints or configs on a split");
  command.add_option("runs", arguments->runs, "Run folders, checkpoints or config files (YAML)")
      .required();
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
  command.add_option("--thresholds GOAL", arguments->thresholds,
                     "Several labels per image: find a threshold for each label on the validation "
                     "split, and keep it in the run for evaluate and predict: f1, or a goal as of "
                     "--operating-point");
  command.add_flag("--curves", arguments->decisions.curves,
                   "Also ROC and precision-recall curves with their areas; stored in the run, for "
                   "its report");
  command.add_option(
      "--operating-point CRITERION", arguments->decisions.operating_point,
      "Also the threshold of the positive class, found on the validation split: "
      "sensitivity=0.95, specificity=0.9 or cost=FP:FN; or cost=FILE.csv, a table of what "
      "each class costs by the true class; stored in the run, where predict uses the costs, "
      "and the threshold of two classes");
  command
      .add_option("--abstain ERROR", arguments->decisions.abstain,
                  "Also the confidence, found on the validation split, below which no class is "
                  "given so that at most this share of the others is wrong; stored in the run, for "
                  "its report")
      .in_range(0.0, 1.0);
  command.add_option(
      "--positive-class CLASS", arguments->decisions.positive_class,
      "The class of --curves and --operating-point; of two classes the second when left out");
  add_ensemble(command, arguments->ensemble)
      .excludes({"--calibrate", "--curves", "--operating-point", "--abstain", "--thresholds"});
  add_follow(command, *arguments);
  add_novelty(command, *arguments);
  add_overrides(command, arguments->overrides, Shorthands::kDevice);
  command.add_flag("--json", arguments->json, "One JSON object per result on standard output");
  command.add_flag("--quiet", arguments->quiet, "Only the line of results");
  command.run([arguments] {
    check_positive_class(arguments->decisions);
    return commands::execute(*arguments, make_context());
  });
}

}  // namespace trainer::app
