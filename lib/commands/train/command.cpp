#include "commands/train/command.h"

#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/files/output_buffer.h"
#include "base/process/progress_watch.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "commands/devices/check_gpus.h"
#include "commands/evaluate/command.h"
#include "commands/train/origin.h"
#include "commands/train/training.h"
#include "config/keys.h"
#include "engine/compile_options.h"
#include "inference/open_model/source.h"
#include "model/build_model.h"
#include "train/open.h"
#include "train/process_group.h"
#include "train/resolve_batch_size.h"
#include "train/run_dir.h"
#include "train/servers/asynchronous.h"
#include "train/signals.h"

namespace trainer::commands {
namespace {

int to_exit_code(hooks::FinishReason reason) {
  return reason == hooks::FinishReason::kInterrupted ? kExitInterrupted : kExitOk;
}

int follow_training(const TrainArguments& arguments, const config::Config& config,
                    const Context& context) {
  EvaluateArguments follower;
  follower.runs = {train::run_folder(config).string()};
  follower.follow = true;
  follower.overrides = arguments.overrides;
  follower.json = arguments.json;
  follower.quiet = arguments.quiet;
  return execute(follower, context);
}

void check_batch_size(const config::Config& config, const cluster::Identity& who) {
  if (!config.train.batch_size.is_automatic()) return;
  if (who.size > 1 || train::has_parameter_servers(who)) {
    throw ConfigError(
        config.train.loc,
        "train.batch_size: auto is for one process, since all processes must take the "
        "same; give a number, such as trainer find batch-size suggests");
  }
}

// Returns the config that the run to resume has recorded; none for a new run.
std::optional<config::Config> read_recorded(const TrainArguments& arguments,
                                            const config::Config& config) {
  const Path stored = train::config_file(train::run_folder(config));
  if (!arguments.resume || !std::filesystem::exists(stored)) return std::nullopt;
  return config::parse_recorded_config(read_text_file(stored), stored.string()).config;
}

// Resolves `auto`. A resumed run keeps the precision that its first session chose.
Notice resolve_precision(const TrainArguments& arguments, config::Config& config,
                         const backend::Platform& platform) {
  if (config.train.precision == config::Precision::kAuto) {
    if (const auto recorded = read_recorded(arguments, config)) {
      config.train.precision = recorded->train.precision;
      return "";
    }
  }
  return engine::resolve_precision(config, platform);
}

// Resolves `auto`. A resumed run keeps the batch size that its first session chose.
void resolve_batch_size(const TrainArguments& arguments, config::Config& config,
                        const data::Datasets& data, const graph::Graph& model,
                        const backend::Platform& platform, const Context& context) {
  if (!config.train.batch_size.is_automatic()) return;
  if (const auto recorded = read_recorded(arguments, config)) {
    config.train.batch_size = recorded->train.batch_size;
    return;
  }
  context.warn(train::resolve_batch_size(config, platform, model, data.train->size()));
}

// Gives a resumed run the network and the images of its first session, where the config leaves them
// to the weights: the file that the config names decides them for new runs alone.
void keep_variant(const TrainArguments& arguments, config::LoadedConfig& loaded) {
  namespace keys = config::keys;
  const auto is_open = [&](const char* key) {
    const auto found = loaded.origins.find(key);
    return found == loaded.origins.end() || found->second.is_open();
  };
  std::optional<config::Backbone>& backbone = loaded.config.model.backbone;
  if (!backbone || !is_open(keys::kBackboneVariant)) return;
  const std::optional<config::Config> recorded = read_recorded(arguments, loaded.config);
  if (!recorded || !recorded->model.backbone || recorded->model.backbone->name != backbone->name) {
    return;
  }
  backbone->variant = recorded->model.backbone->variant;
  loaded.config.model.weights_warning.clear();
  config::Data& data = loaded.config.data;
  if (is_open(keys::kPreprocess) && is_open("data.normalize.scale")) {
    data.preprocess = recorded->data.preprocess;
    data.normalize = recorded->data.normalize;
  }
  if (is_open(keys::kInterpolation)) data.interpolation = recorded->data.interpolation;
  if (is_open(keys::kFit)) data.fit = recorded->data.fit;
  if (is_open(keys::kCropFraction)) data.crop_fraction = recorded->data.crop_fraction;
  if (is_open(keys::kModelInput) && is_open(keys::kResize)) {
    loaded.config.model.input = recorded->model.input;
    data.resize = recorded->data.resize;
    data.stated_shape = recorded->model.input;
  }
}

// Returns whether a config or a flag gives run.log_every. The config of a run gives every value,
// also those that nobody has set.
bool has_log_every(const TrainArguments& arguments, const config::LoadedConfig& loaded) {
  using Kind = config::Origin::Kind;
  const Kind kind = loaded.origins.at("run.log_every").kind;
  return kind != Kind::kDefault && !(kind == Kind::kFile && inference::is_run(arguments.path));
}

// Opens the data, builds the model and trains. `rendezvous` is null unless the processes train in
// step.
int open_and_train(const TrainArguments& arguments, config::LoadedConfig& loaded,
                   const cluster::Identity& who,
                   const std::shared_ptr<cluster::Rendezvous>& rendezvous,
                   const backend::Platform& platform, const Context& context) {
  config::Config& config = loaded.config;
  const data::Datasets data = train::open_training_data(config, {}, platform.progress);
  const Notice normalize = train::resolve_normalize(config, data);
  if (who.rank == 0) {
    for (const Notice& notice : list_notices(data)) context.warn(notice);
    context.warn(normalize);
  }
  const graph::Graph model =
      model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
  train::check_trainable(config, model);
  resolve_batch_size(arguments, config, data, model, platform, context);
  const Training training{arguments, config,  data, model, has_log_every(arguments, loaded),
                          context,   platform};
  if (rendezvous) return to_exit_code(train_in_step(training, rendezvous));
  if (train::has_parameter_servers(who)) {
    return to_exit_code(train_as_chief_or_worker(training, who));
  }
  if (config.parallel.strategy == config::Parallel::Strategy::kParameterServer) {
    make_printer(arguments, context)(
        "parallel.strategy: parameter_server, but no cluster: this process alone");
  }
  return to_exit_code(train_alone(training));
}

// Joins before the data is opened, so that the other ranks wait for a rank with slow storage and
// get the reason when it fails.
int join_and_train(const TrainArguments& arguments, config::LoadedConfig& loaded,
                   const cluster::Identity& who, const backend::Platform& platform,
                   const Context& context) {
  const std::shared_ptr<cluster::Rendezvous> rendezvous =
      train::join_job(who, loaded.config, context.warn, platform.progress);
  try {
    return open_and_train(arguments, loaded, who, rendezvous, platform, context);
  } catch (const PeerError&) {
    throw;  // all ranks have this error
  } catch (const std::exception& error) {
    rendezvous->fail(error.what());
    throw;
  }
}

// Throws ConfigError if `run`, a run folder that was copied, moved or reached from another folder,
// is not the folder that its config names.
void check_is_own_folder(const Path& run, const config::LoadedConfig& loaded) {
  using Kind = config::Origin::Kind;
  const Kind kind = loaded.origins.at("run.dir").kind;
  if (kind == Kind::kSet || kind == Kind::kEnvironment) return;
  const Path named = train::run_folder(loaded.config);
  std::error_code error;
  if (std::filesystem::equivalent(named, run, error)) return;
  throw ConfigError(
      {}, concat(run.string(), ": the config of this run names the folder ", named.string(),
                 "; give --run-dir with the folder to train in, e.g. ",
                 shell_word("--run-dir=" + run.string())));
}

// Throws ConfigError for a job of another size than parallel.require_cluster.
void check_cluster_size(const config::Parallel& parallel, const cluster::Identity& who,
                        const Context& context) {
  if (!parallel.require_cluster || parallel.require_cluster->accepts(who.size)) return;
  const Notice notice = cluster::launch_notice(who, context.environment);
  const std::int64_t count = parallel.require_cluster->count;
  throw ConfigError(
      parallel.loc,
      concat("parallel.require_cluster is ", count == 0 ? "true" : std::to_string(count),
             ", but this process is rank ", who.rank, " of ", who.size, ", by ", who.source,
             notice.text.empty() ? "" : "; ", notice.text));
}

// Returns the address of this process or, if it has none, the first of the job.
const cluster::Address& first_address(const cluster::Identity& who) {
  if (who.cluster.ps.empty()) return who.master;
  if (who.role != cluster::Role::kParameterServer) return who.cluster.ps.front();
  return who.cluster.ps[static_cast<std::size_t>(who.index)];
}

// Warns of a job that whoever reaches its ports can join.
void warn_without_secret(const cluster::Identity& who, const Context& context) {
  if (!cluster::accepts_unauthenticated_peers(who) || who.rank > 0) return;
  context.warn(
      concat("this job has no secret: whoever reaches its ports (the first is ",
             cluster::to_string(first_address(who)),
             ") can read its weights, change or end it; give all its processes the same one ",
             "(TRAINER_SECRET, or --secret-file FILE)"));
}

// Returns whether the number of GPUs is that of the machine, for which nobody has asked: `all` in a
// config counts as the default, which it is in the configs of the project.
bool takes_all_gpus(const config::LoadedConfig& loaded) {
  using Kind = config::Origin::Kind;
  const Kind kind = loaded.origins.at("parallel.gpus").kind;
  return (kind == Kind::kDefault || kind == Kind::kFile) &&
         loaded.origins.at("parallel.replicas").loc.file == kAllGpus;
}

// Checks the GPUs of a process alone before its first run on them. If they fail, and nobody has
// asked for several, the run takes one.
void check_several_gpus(config::LoadedConfig& loaded, const cluster::Identity& who,
                        const backend::Platform& platform, const Context& context) {
  config::Parallel& parallel = loaded.config.parallel;
  if (who.size > 1 || train::has_parameter_servers(who)) return;
  if (!engine::uses_nccl(parallel, platform)) return;
  std::vector<std::string> listed;
  for (const std::int64_t gpu : parallel.gpus.indices) listed.push_back(std::to_string(gpu));
  const std::string gpus =
      listed.empty() ? std::to_string(parallel.replicas) : concat("[", join(listed), "]");
  try {
    check_gpus({gpus, parallel.replicas}, true, platform, context.environment, context.warn);
  } catch (const DeviceError& error) {
    if (!takes_all_gpus(loaded)) throw;
    context.warn(concat(error.what(), "; training goes on with one GPU"));
    parallel.replicas = 1;
  }
}

ProgressWatchOptions make_watch_options(const config::Config& config, const cluster::Identity& who,
                                        const Context& context) {
  ProgressWatchOptions options;
  options.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(config.parallel.timeout.count * 1000));
  if (who.size > 1) options.process = concat("rank ", who.rank);
  options.warn = context.warn;
  return options;
}

}  // namespace

int execute(const TrainArguments& arguments, const Context& context) {
  // ProgressWatch answers this signal; a process without one, such as a parameter server, goes on.
  std::signal(SIGQUIT, SIG_IGN);
  const train::StartupSignals signals;
  const FinishOutput output;  // while a signal still ends with kExitInterrupted
  cluster::IdentityFlags flags = arguments.identity;
  cluster::Identity who = cluster::identify(flags, context.environment);
  config::LoadedConfig loaded = load_for_devices(arguments, context, find_place(who).size);
  flags.hosts = loaded.config.parallel.hosts;
  who = cluster::identify(flags, context.environment);
  who.build = context.version;
  check_cluster_size(loaded.config.parallel, who, context);
  context.warn(cluster::launch_notice(who, context.environment));
  context.warn(loaded.notice);
  if (inference::is_run(arguments.path)) check_is_own_folder(arguments.path, loaded);
  keep_variant(arguments, loaded);
  const config::Config& config = loaded.config;
  train::check_workers(config, who);
  warn_without_secret(who, context);
  if (who.role == cluster::Role::kEvaluator) return follow_training(arguments, config, context);
  if (who.role == cluster::Role::kParameterServer) {
    return to_exit_code(train::serve(config, who, make_printer(arguments, context)));
  }
  const backend::Platform platform = backend::read_platform(context.environment);
  if (who.rank == 0) {
    context.warn(backend::device_warning(engine::device_options(config.parallel, platform)));
  }
  check_several_gpus(loaded, who, platform, context);
  check_batch_size(config, who);
  const Notice precision = resolve_precision(arguments, loaded.config, platform);
  if (who.rank == 0) context.warn(precision);
  const bool in_step = who.size > 1 && !train::has_parameter_servers(who);
  const ProgressWatch watch(platform.progress, make_watch_options(config, who, context));
  return in_step ? join_and_train(arguments, loaded, who, platform, context)
                 : open_and_train(arguments, loaded, who, nullptr, platform, context);
}

}  // namespace trainer::commands
