#include "options/options.h"

#include <string>

#include "backend/open.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/process/install.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "options/commands.h"
#include "commands/open_model/recorded_paths.h"
#include "commands/open_model/source.h"
#include "train/run_dir.h"

namespace trainer::app {

void add_config(const Command& command, ConfigArguments& arguments) {
  command.add_option("config", arguments.path, kConfigHelp).required();
  add_overrides(command, arguments.overrides);
  command.add_flag("--json", arguments.json,
                   "One JSON object per line on standard output, nothing else");
  command.add_flag("--quiet", arguments.quiet, "No progress");
}

config::LoadedConfig load(const ConfigArguments& arguments) {
  if (is_run(arguments.path)) return load_recorded(arguments.path, arguments.overrides);
  return config::load_config(find_config(arguments.path, arguments.overrides), arguments.overrides,
                             environment());
}

void reject_installed_elsewhere(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return;
  const Path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const Path installed = find_installed_file(program, path);
  if (installed.empty()) return;
  throw ConfigError(SourceLoc{path, 0, 0}, concat("no such file; the installed one is ",
                                                  printable(shell_word(installed.string()))));
}

bool is_run(const std::string& source) {
  return commands::find_source_kind(source) == commands::SourceKind::kRun;
}

config::LoadedConfig load_recorded(const std::string& run,
                                   const std::vector<config::Override>& overrides) {
  const std::string file = train::config_file(run).string();
  config::LoadedConfig loaded =
      config::parse_recorded_config(read_text_file(file), file, overrides, environment());
  commands::find_recorded_paths(loaded, run, commands::read_base(run));
  return loaded;
}

config::LoadedConfig load_for_devices(const ConfigArguments& arguments, int local_size) {
  ConfigArguments every = arguments;
  if (!is_run(every.path)) every.path = find_config(arguments.path, arguments.overrides);
  config::LoadedConfig loaded = load(every);
  const config::Parallel& parallel = loaded.config.parallel;
  if (parallel.device == DeviceKind::kCpu || parallel.gpus.kind != config::Gpus::Kind::kAll ||
      parallel.strategy ==
          config::Parallel::Strategy::kParameterServer ||  // one replica per process
      loaded.origins.at("parallel.replicas").kind != config::Origin::Kind::kDefault) {
    return loaded;
  }
  const std::size_t gpus = backend::list_gpus().gpus.size() / static_cast<std::size_t>(local_size);
  if (gpus < 2) return loaded;
  // Read anew, so that the rules for several replicas are checked.
  every.overrides.push_back({"parallel.replicas", std::to_string(gpus), "parallel.gpus: all"});
  return load(every);
}

void add_overrides(const Command& command, std::vector<config::Override>& overrides,
                   Shorthands shorthands) {
  command
      .add_list_action(
          "--set",
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
      .type_name("KEY=VALUE")
      .one_value_each()
      .in_order();
  const auto flag = [&](const char* name, const char* key, const char* help) {
    command
        .add_action(
            name,
            [&overrides, key, name](const std::string& value) {
              overrides.push_back({key, value, name});
            },
            help)
        .in_order();
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

config::Override gpus_override(const std::string& value) {
  using Syntax = config::Override::Syntax;
  return {"parallel.gpus", value, "--gpus", value.starts_with('[') ? Syntax::kYaml : Syntax::kText};
}

Option add_last(const Command& command, bool& last) {
  return command.add_flag("--last", last,
                          "The last checkpoint, also if the run has kept its best one");
}

void add_model(const Command& command, ModelArguments& arguments) {
  command
      .add_option("--weights", arguments.weights,
                  "Of a config, what its model has instead of model.weights: a weight file or a "
                  "run, or imagenet for its backbone")
      .type_name("FILE|RUN|imagenet");
  const Option last = add_last(command, arguments.last);
  const Option best = command
                          .add_flag("--best", arguments.best,
                                    "The best checkpoint (run.best); the default where there is "
                                    "one")
                          .excludes(last);
  command
      .add_option("--average", arguments.average,
                  "Mean of the parameters and moving statistics of a run's last N checkpoints")
      .type_name("N")
      .at_least_one()
      .excludes(best)
      .excludes(last);
}

commands::OpenedModel open_model(const ModelArguments& arguments) {
  reject_installed_elsewhere(arguments.model);
  using Choice = commands::CheckpointChoice;
  const Choice checkpoint = arguments.best   ? Choice::kBest
                            : arguments.last ? Choice::kLast
                                             : Choice::kDefault;
  return commands::open_model({arguments.model, checkpoint, arguments.average, arguments.weights},
                              arguments.overrides, environment(), warn);
}

Option add_ensemble(const Command& command, std::string& ensemble) {
  return command
      .add_action(
          "--ensemble",
          [&ensemble](const std::string& runs) {
            if (runs.empty()) reject_value("--ensemble", "names no run");
            ensemble = runs;
          },
          "More runs, with commas between: takes the mean of the probabilities of all runs")
      .type_name("RUN,RUN,...");
}

std::vector<commands::OpenedModel> open_models(ModelArguments arguments,
                                               const std::string& ensemble) {
  std::vector<commands::OpenedModel> models;
  models.push_back(open_model(arguments));
  for (std::string& run : split_text(ensemble, ',')) {
    if (run.empty()) {
      throw ConfigError({}, concat("--ensemble '", printable(ensemble),
                                   "': expected run folders with commas between"));
    }
    arguments.model = std::move(run);
    models.push_back(open_model(arguments));
  }
  return models;
}

}  // namespace trainer::app
