#include "commands/train/command.h"

#include <gnu/libc-version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/output_buffer.h"
#include "base/formats/table.h"
#include "base/notice.h"
#include "base/process/memory.h"
#include "base/process/process.h"
#include "base/process/progress_watch.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "base/threads/topology.h"
#include "checkpoint/lock.h"
#include "cluster/identity.h"
#include "cluster/rendezvous.h"
#include "commands/evaluate/command.h"
#include "commands/measure/measured.h"
#include "config/keys.h"
#include "data/open.h"
#include "data/samples/splits.h"
#include "engine/engine.h"
#include "graph/graph.h"
#include "hooks/data_report.h"
#include "hooks/hooks.h"
#include "hooks/run_record.h"
#include "inference/open_model/source.h"
#include "model/build_model.h"
#include "model/files/import.h"
#include "model/table.h"
#include "results/page/sheet.h"
#include "results/run_files/data_name.h"
#include "results/run_record.h"
#include "results/write_json.h"
#include "train/common_files.h"
#include "train/host_memory.h"
#include "train/loop.h"
#include "train/open.h"
#include "train/process_group.h"
#include "train/resolve_batch_size.h"
#include "train/run_dir.h"
#include "train/servers/asynchronous.h"
#include "train/servers/server_loop.h"
#include "train/signals.h"
#include "train/warnings.h"

namespace trainer::commands {
namespace {

// Returns the notices of the data that are not empty.
std::vector<Notice> list_notices(const data::Datasets& data) {
  std::vector<Notice> notices{data.range_notice, data.relabel_notice};
  notices.insert(notices.end(), data.notices.begin(), data.notices.end());
  std::erase_if(notices, [](const Notice& notice) { return notice.text.empty(); });
  return notices;
}

// Returns the origin of a job whose model has these layers. The program is job.build.
results::RunRecord make_origin(const train::Job& job, const std::vector<model::LayerRow>& layers) {
  results::RunRecord origin;
  origin.program = job.build;
#ifdef __clang__
  origin.compiler = __VERSION__;
#else
  origin.compiler = concat("GCC ", __VERSION__);
#endif
  origin.libc = concat("glibc ", ::gnu_get_libc_version());
  origin.host = host_name();
  origin.device = job.engine.describe();
  origin.processor = processor_name();
  const Topology machine = read_topology();
  origin.cores = std::ssize(machine.processors);
  origin.machine = describe(machine);
  origin.model = model::describe_model(job.config.model, layers);
  origin.data = job.data.train->fingerprint();
  const backend::MemoryReport memory = job.engine.memory();
  const auto replicas = static_cast<std::int64_t>(job.engine.count());
  origin.memory = {{"parameters and state", (memory.variables + memory.derived) / replicas},
                   {"gradients", memory.gradients / replicas},
                   {"activations", memory.activations / replicas},
                   {"staging and tables", (memory.staging + memory.tables) / replicas}};
  for (const Split split : kSplits) {
    const data::Dataset* const dataset = job.data.dataset(split).get();
    if (dataset == nullptr) continue;
    origin.splits.push_back(
        {to_string(split), {dataset->size(), data::class_counts(*dataset, job.data.num_classes)}});
  }
  origin.data_notices = list_notices(job.data);
  for (const std::string& warning : hooks::data_warnings(job.data)) {
    origin.data_notices.emplace_back(warning);
  }
  origin.base = train::find_base(job.run);
  origin.on_cpu = job.engine.backend().reads_host_memory();
  origin.price_per_hour = job.config.run.price_per_hour;
  return origin;
}

// Returns "cpu, 2 lanes ...; trainer 0.1.0 on host, process 12; samples of photos: train 2,058".
std::string describe_session(const train::Job& job) {
  std::vector<std::string> samples;
  for (const Split split : kSplits) {
    const data::Dataset* const dataset = job.data.dataset(split).get();
    if (dataset != nullptr)
      samples.push_back(concat(to_string(split), ' ', grouped(dataset->size())));
  }
  return concat(job.engine.describe(), "; ", job.build, " on ", host_name(), ", process ",
                ::getpid(), "; samples of ", results::find_data_name(config::leaves(job.config)),
                ": ", join(samples));
}

// What a process of a job trains. All that it refers to must outlive the training.
struct Training {
  const TrainArguments& arguments;
  const config::Config& config;
  const data::Datasets& data;
  const graph::Graph& model;
  bool has_log_every = false;  // the config or a flag gives run.log_every
  const Context& context;
  const backend::Platform& platform;
};

// Returns the place among the processes of this machine that the launcher or the cluster has set,
// before a rendezvous.
engine::LocalPlace find_place(const cluster::Identity& who) {
  if (!who.local_size) return {};
  return {who.local_rank.value_or(0), *who.local_size};
}

// Returns a function that prints a line to `context.out`, or nothing with --quiet or --json. The
// stream must outlive it.
std::function<void(const std::string&)> make_printer(const TrainArguments& arguments,
                                                     const Context& context) {
  if (arguments.quiet || arguments.json) return [](const std::string&) {};
  return [&out = context.out](const std::string& line) { out << line << std::endl; };
}

// Between two lines of a log without a terminal, unless run.log_every is given.
constexpr double kMinLogSeconds = 1;

train::Start choose_start(const TrainArguments& arguments) {
  return arguments.resume      ? train::Start::kResume
         : arguments.overwrite ? train::Start::kOverwrite
                               : train::Start::kFresh;
}

// Draws the samples that the model is about to see. Training reports files that cannot be read.
Bytes draw_first_samples(const train::Job& job) {
  constexpr std::int64_t kSamples = 16;
  try {
    return results::draw_sheet(*job.data.train, job.data.classes, job.config.data, job.config.seed,
                               kSamples);
  } catch (const DataError&) {
    return {};
  }
}

// Locks and prepares the run folder, which only the chief has, and makes the hooks. `place` is the
// place of this process among the processes of the job on this machine.
void open_run(const Training& training, const engine::LocalPlace& place, train::Job& job,
              std::optional<checkpoint::RunLock>& lock) {
  const TrainArguments& arguments = training.arguments;
  const Context& context = training.context;
  for (const std::string& line :
       train::config_warnings(job.config, train::sample_spec(job.data), job.plan)) {
    context.warn(line);
  }
  if (job.engine.backend().reads_host_memory()) {
    // The engine's memory is not resident yet: the system assigns it at the first write.
    context.warn(train::host_memory_warning(training.model, job.config, training.platform,
                                            job.engine.memory(),
                                            available_memory() / std::max(1, place.size)));
  }
  if (job.start != train::Start::kResume)
    model::check_weights_exist(job.config.model, context.environment);
  train::check_outside_data(job.run, job.config);
  if (!job.shared_features.empty()) {
    train::check_outside_data(job.shared_features, job.config, "--features-dir");
  }
  lock.emplace(job.run);
  context.warn(lock->warning());
  train::prepare_run_folder(job.run, job.config, job.start);
  context.warn(train::sync_warning(job.run));
  job.hooks = hooks::make_hooks(
      job.config, context.out,
      {context.out_is_terminal,
       arguments.quiet,
       arguments.json,
       {context.columns, std::chrono::system_clock::now, train::SignalWatch::output_closed,
        describe_session(job), training.has_log_every ? 0 : kMinLogSeconds},
       context.warn,
       [&job] { return draw_first_samples(job); }});
  job.hooks.insert(job.hooks.begin(),
                   hooks::make_data_report_hook(job.data, context.warn,
                                                arguments.json ? &context.out : nullptr));
  if (job.config.run.ledger) {
    job.hooks.push_back(hooks::make_ledger_hook(
        [&engine = job.engine] { return engine.replica().parameters_sha256(); }, context.warn));
  }
  const std::vector<model::LayerRow> layers = model::layer_table(training.model);
  const results::RunRecord origin = make_origin(job, layers);
  job.hooks.push_back(hooks::make_run_record_hook(origin, context.warn));
  if (!job.config.run.mlflow.empty()) {
    hooks::MlflowOptions options;
    options.tags = {{"trainer.version", origin.program},
                    {"trainer.host", host_name()},
                    {"trainer.device", origin.device},
                    {"trainer.data", origin.data}};
    options.environment = context.environment;
    options.warn = context.warn;
    job.hooks.push_back(hooks::make_mlflow_hook(job.config, std::move(options)));
  }
  if (arguments.json) {
    results::print_json(results::ModelEvent{measured_keys(layers, job.config)}, context.out);
  }
}

// NCCL waits for ever where ranks differ in these.
std::string nccl_environment(const Environment& variables) {
  std::string text;
  for (const char* name : {"NCCL_ALGO", "NCCL_PROTO"}) {
    text += concat(name, "=", read_variable(variables, name), "\n");
  }
  return text;
}

// The engine of a run. Its devices are freed within an activity, because a driver may hang then.
class ClosingEngine {
 public:
  ClosingEngine(const Training& training, const engine::LocalPlace& place, std::int64_t workers,
                cluster::Communicator* gradients)
      : progress_(training.platform.progress),
        engine_(std::in_place, training.model, training.config,
                engine::open_backends(training.config, training.platform, workers, place),
                engine::Use::kTrain, gradients) {}
  ~ClosingEngine() {
    const bool is_cpu = engine_->backend().reads_host_memory();
    const ActivityScope scope(progress_, is_cpu ? Activity::kCompute : Activity::kGpu);
    engine_.reset();
  }
  ClosingEngine(const ClosingEngine&) = delete;
  ClosingEngine& operator=(const ClosingEngine&) = delete;

  engine::Engine& operator*() { return *engine_; }

 private:
  Progress progress_;
  std::optional<engine::Engine> engine_;
};

// Runs the training of this process, alone or as a part of a job. When an exception ends it, the
// other processes get the reason. `servers` is null unless the job has parameter servers.
hooks::FinishReason run_job(const Training& training, train::ProcessGroup& group,
                            const engine::LocalPlace& place,
                            train::ParameterServers* servers = nullptr) {
  const config::Config& config = training.config;
  const data::Datasets& data = training.data;
  const Context& context = training.context;
  try {
    train::agree_on_data(group, config, data, nccl_environment(context.environment));
    ClosingEngine engine(training, place, group.size(), group.gradients());
    train::Job job{config, data, *engine,
                   train::plan_steps(config, data.train->size(), group.size()), group};
    job.run = train::run_folder(config);
    job.shared_features = training.arguments.features_dir;
    job.build = context.version;
    job.progress = training.platform.progress;
    job.start = choose_start(training.arguments);
    const bool chief = group.is_chief();
    job.warn = [](const Notice&) {};  // all would print the same
    if (chief) job.warn = context.warn;
    std::optional<checkpoint::RunLock> lock;
    if (chief) open_run(training, place, job, lock);
    return (servers == nullptr ? train::train(job) : train::train_with_servers(job, *servers))
        .reason;
  } catch (const std::exception& error) {
    group.fail(error);
    if (servers != nullptr) servers->fail(error.what());
    throw;
  }
}

hooks::FinishReason run_worker(const Training& training, const cluster::Identity& who) {
  const config::Config& config = training.config;
  engine::Engine engine(training.model, config,
                        engine::open_backends(config, training.platform, 1, find_place(who)),
                        engine::Use::kTrain);
  engine.initialise(config.seed);
  engine.write(model::import_weights(engine.replica().model(), config.model).tensors);
  train::ParameterServers servers(who, config, train::common_model(training.data, engine));
  return train::work(config, training.data, engine, servers);
}

// Trains in a process alone.
hooks::FinishReason train_alone(const Training& training) {
  train::ProcessGroup alone;
  return run_job(training, alone, {});
}

// Trains in step with the other ranks, to which this one has connected.
hooks::FinishReason train_in_step(const Training& training,
                                  std::shared_ptr<cluster::Rendezvous> rendezvous) {
  train::ProcessGroup group(std::move(rendezvous), training.config, training.platform,
                            training.model, make_printer(training.arguments, training.context));
  return run_job(training, group, group.place());
}

// Trains as the chief or as a worker of a job with parameter servers.
hooks::FinishReason train_as_chief_or_worker(const Training& training,
                                             const cluster::Identity& who) {
  if (who.role != cluster::Role::kChief) return run_worker(training, who);
  train::ParameterServers servers(who, training.config);
  train::ProcessGroup alone;
  return run_job(training, alone, find_place(who), &servers);
}

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

// Resolves `auto`. A resumed run keeps the batch size that its first session chose.
void resolve_batch_size(const TrainArguments& arguments, config::Config& config,
                        const data::Datasets& data, const graph::Graph& model,
                        const backend::Platform& platform, const Context& context) {
  if (!config.train.batch_size.is_automatic()) return;
  const Path stored = train::config_file(train::run_folder(config));
  if (arguments.resume && std::filesystem::exists(stored)) {
    config.train.batch_size = config::parse_recorded_config(read_text_file(stored), stored.string())
                                  .config.train.batch_size;
    return;
  }
  context.warn(train::resolve_batch_size(config, platform, model, data.train->size()));
}

// Gives a resumed run the network of its first session, where the config leaves open which variant
// of a backbone it means: the weight file that the config names decides it for new runs alone.
void keep_variant(const TrainArguments& arguments, config::LoadedConfig& loaded) {
  using Kind = config::Origin::Kind;
  const auto is_open = [&](const char* key) {
    const auto found = loaded.origins.find(key);
    return found == loaded.origins.end() || found->second.kind == Kind::kDefault;
  };
  std::optional<config::Backbone>& backbone = loaded.config.model.backbone;
  const Path stored = train::config_file(train::run_folder(loaded.config));
  if (!arguments.resume || !backbone || !is_open(config::keys::kBackboneVariant)) return;
  if (!std::filesystem::exists(stored)) return;
  const config::Config recorded =
      config::parse_recorded_config(read_text_file(stored), stored.string()).config;
  if (!recorded.model.backbone || recorded.model.backbone->name != backbone->name) return;
  backbone->variant = recorded.model.backbone->variant;
  if (is_open(config::keys::kPreprocess) && !loaded.config.data.normalize) {
    loaded.config.data.preprocess = recorded.data.preprocess;
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

// Warns of a job that whoever reaches its ports can join.
void warn_without_secret(const cluster::Identity& who, const Context& context) {
  if (!cluster::accepts_unauthenticated_peers(who) || who.rank > 0) return;
  const std::vector<cluster::Address>& servers = who.cluster.ps;
  const bool serves = who.role == cluster::Role::kParameterServer;
  const cluster::Address& open =
      servers.empty() ? who.master : servers[serves ? static_cast<std::size_t>(who.index) : 0];
  context.warn(concat(
      "this job has no secret: whoever reaches its ports (the first is ", cluster::to_string(open),
      ") can read its weights, change or end it; give all its processes the same one ",
      "(TRAINER_SECRET, or --secret-file FILE)"));
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
  const train::StartupSignals signals;
  const FinishOutput output;  // while a signal still ends with kExitInterrupted
  cluster::Identity who = cluster::identify(arguments.identity, context.environment);
  who.build = context.version;
  config::LoadedConfig loaded = load_for_devices(arguments, context, find_place(who).size);
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
  check_batch_size(config, who);
  const bool in_step = who.size > 1 && !train::has_parameter_servers(who);
  const ProgressWatch watch(platform.progress, make_watch_options(config, who, context));
  return in_step ? join_and_train(arguments, loaded, who, platform, context)
                 : open_and_train(arguments, loaded, who, nullptr, platform, context);
}

}  // namespace trainer::commands
