#include "options/options.h"

#include "base/error.h"

namespace trainer::app {

void add_settings(const Command& command, commands::ConfigArguments& arguments) {
  add_overrides(command, arguments.overrides);
  command.add_flag("--json", arguments.json,
                   "One JSON object per line on standard output, nothing else");
  command.add_flag("--quiet", arguments.quiet, "No progress");
}

void add_config(const Command& command, commands::ConfigArguments& arguments) {
  command.add_option("config", arguments.path, kConfigHelp).required();
  add_settings(command, arguments);
}

void add_overrides(const Command& command, std::vector<config::Override>& overrides,
                   Shorthands shorthands) {
  command
      .add_list_action(
          "--set KEY=VALUE",
          [&overrides](const std::vector<std::string>& settings) {
            for (const std::string& setting : settings) {
              const auto equals = setting.find('=');
              if (equals == std::string::npos) {
                throw ConfigError(
                    {}, "--set " + setting + ": expected key=value, e.g. --set train.epochs=3");
              }
              overrides.push_back({setting.substr(0, equals), setting.substr(equals + 1), "--set",
                                   config::Override::Syntax::kYaml});
            }
          },
          "Replace a value of the config, e.g. --set optimizer.adam.learning_rate=1e-4")
      .one_value_each()
      .in_order();
  const auto flag = [&](const char* name, const char* key, const char* help) {
    add_override(command, overrides, name, key, help).in_order();
  };
  if (shorthands == Shorthands::kNone) return;
  flag("--batch-size", "train.batch_size", "Samples per replica and step (train.batch_size)");
  if (shorthands == Shorthands::kAll) {
    flag("--epochs", "train.epochs", "Epochs to train (train.epochs)");
    flag("--seed", "seed", "Seed of everything random (seed)");
    flag("--run-dir", "run.dir", "Folder of the run (run.dir)");
  }
  flag("--replicas", "parallel.replicas", "Copies of the model (parallel.replicas)");
  command
      .add_action(
          "--gpus",
          [&overrides](const std::string& value) { overrides.push_back(gpus_override(value)); },
          "GPUs to use: a number, all or [0, 2] (parallel.gpus)")
      .in_order();
}

Option add_override(const Command& command, std::vector<config::Override>& overrides,
                    const std::string& name, const char* key, const char* help) {
  const std::string flag = name.substr(0, name.find(' '));
  return command.add_action(
      name,
      [&overrides, key, flag](const std::string& value) {
        overrides.push_back({key, value, flag});
      },
      help);
}

config::Override gpus_override(const std::string& value) {
  using Syntax = config::Override::Syntax;
  return {"parallel.gpus", value, "--gpus", value.starts_with('[') ? Syntax::kYaml : Syntax::kText};
}

Option add_last(const Command& command, bool& last) {
  return command.add_flag("--last", last,
                          "The last checkpoint, also if the run has kept its best one");
}

void add_model(const Command& command, commands::ModelArguments& arguments) {
  command.add_option("--weights FILE|RUN|imagenet", arguments.weights,
                     "Of a config, what its model has instead of model.weights: a weight file or a "
                     "run, or imagenet for its backbone");
  const Option last = add_last(command, arguments.last);
  const Option best = command
                          .add_flag("--best", arguments.best,
                                    "The best checkpoint (run.best); the default where there is "
                                    "one")
                          .excludes(last);
  command
      .add_option("--average N", arguments.average,
                  "Mean of the parameters and moving statistics of a run's last N checkpoints")
      .at_least_one()
      .excludes(best)
      .excludes(last);
}

Option add_ensemble(const Command& command, std::string& ensemble) {
  return command.add_action(
      "--ensemble RUN,RUN,...",
      [&ensemble](const std::string& runs) {
        if (runs.empty()) reject_value("--ensemble", "names no run");
        ensemble = runs;
      },
      "More runs, with commas between: takes the mean of the probabilities of all runs");
}

}  // namespace trainer::app
