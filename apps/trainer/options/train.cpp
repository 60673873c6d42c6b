#include <gnu/libc-version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/output_buffer.h"
#include "base/formats/table.h"
#include "base/process/memory.h"
#include "base/process/process.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "base/threads/topology.h"
#include "checkpoint/lock.h"
#include "options/commands.h"
#include "commands/data/sheet.h"
#include "commands/measure/measured.h"
#include "commands/run_files/data_name.h"
#include "data/samples/splits.h"
#include "hooks/data_report.h"
#include "hooks/run_record.h"
#include "model/build_model.h"
#include "model/files/import.h"
#include "model/table.h"
#include "options/options.h"
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

namespace trainer::app {
namespace {

struct TrainArguments : ConfigArguments {
  bool resume = false;
  bool overwrite = false;
  bool has_log_every = false;  // the config or a flag gives run.log_every
  std::string features_dir;
  cluster::IdentityFlags identity;
};

// Between two lines of a log without a terminal, unless run.log_every is given.
constexpr double kMinLogSeconds = 1;

int to_exit_code(hooks::FinishReason reason) {
  return reason == hooks::FinishReason::kInterrupted ? kExitInterrupted : kExitOk;
}

train::Start choose_start(const TrainArguments& arguments) {
  return arguments.resume      ? train::Start::kResume
         : arguments.overwrite ? train::Start::kOverwrite
                               : train::Start::kFresh;
}

// Returns what is to be printed about the data before the model is built.
std::vector<Notice> list_notices(const data::Datasets& data) {
  std::vector<Notice> notices{data.range_notice, data.relabel_notice};
  notices.insert(notices.end(), data.group_notices.begin(), data.group_notices.end());
  std::erase_if(notices, [](const Notice& notice) { return notice.text.empty(); });
  return notices;
}

hooks::RunOrigin make_origin(const train::Job& job, const std::vector<model::LayerRow>& layers) {
  hooks::RunOrigin origin;
  origin.program = version();
  origin.compiler = __VERSION__;
  origin.libc = concat("glibc ", ::gnu_get_libc_version());
  origin.device = job.engine.describe();
  origin.processor = processor_name();
  const Topology machine = backend::machine_topology();
  origin.cores = std::ssize(machine.processors);
  origin.machine = describe(machine);
  origin.model = model::describe_model(job.config.model, layers);
  origin.data_fingerprint = job.data.train->fingerprint();
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
        {split, dataset->size(), data::class_counts(*dataset, job.data.num_classes)});
  }
  origin.data_notices = list_notices(job.data);
  for (const std::string& warning : hooks::data_warnings(job.data)) {
    origin.data_notices.emplace_back(warning);
  }
  origin.base = train::find_base(job.run);
  origin.on_cpu = job.engine.reads_host_memory();
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
  return concat(job.engine.describe(), "; ", version(), " on ", host_name(), ", process ",
                ::getpid(), "; samples of ", commands::find_data_name(config::leaves(job.config)),
                ": ", join(samples));
}

// Draws the samples that the model is about to see. Training reports files that cannot be read.
Bytes draw_sheet(const train::Job& job) {
  constexpr std::int64_t kSamples = 16;
  try {
    return commands::draw_sheet(*job.data.train, job.data.classes, job.config.data, job.config.seed,
                                kSamples);
  } catch (const DataError&) {
    return {};
  }
}

// Locks and prepares the run folder, which only the chief has, and makes the hooks. `place` is the
// place of this process among the processes of the job on this machine.
void open_run(const TrainArguments& arguments, const graph::Graph& model,
              const engine::LocalPlace& place, train::Job& job,
              std::optional<checkpoint::RunLock>& lock) {
  for (const std::string& line :
       train::config_warnings(job.config, train::sample_spec(job.data), job.plan)) {
    warn(line);
  }
  if (job.engine.reads_host_memory()) {
    // The engine's memory is not resident yet: the system assigns it at the first write.
    warn(train::host_memory_warning(model, job.config, job.engine.memory(),
                                    available_memory() / std::max(1, place.size)));
  }
  if (job.start != train::Start::kResume)
    model::check_weights_exist(job.config.model, environment());
  train::check_outside_data(job.run, job.config);
  if (!job.shared_features.empty()) {
    train::check_outside_data(job.shared_features, job.config, "--features-dir");
  }
  lock.emplace(job.run);
  warn(lock->warning());
  train::prepare_run_folder(job.run, job.config, job.start);
  warn(train::sync_warning(job.run));
  job.hooks = hooks::make_hooks(
      job.config, std::cout,
      {is_terminal(),
       arguments.quiet,
       arguments.json,
       {terminal_columns, std::chrono::system_clock::now, train::SignalWatch::output_closed,
        describe_session(job), arguments.has_log_every ? 0 : kMinLogSeconds},
       warn,
       [&job] { return draw_sheet(job); }});
  job.hooks.insert(job.hooks.begin(), hooks::make_data_report_hook(
                                          job.data, warn, arguments.json ? &std::cout : nullptr));
  if (job.config.run.ledger) {
    job.hooks.push_back(hooks::make_ledger_hook(
        [&engine = job.engine] { return engine.parameters_sha256(); }, warn));
  }
  const std::vector<model::LayerRow> layers = model::layer_table(model);
  const hooks::RunOrigin origin = make_origin(job, layers);
  job.hooks.push_back(hooks::make_run_record_hook(origin));
  if (!job.config.run.mlflow.empty()) {
    hooks::MlflowOptions options;
    options.tags = {{"trainer.version", origin.program},
                    {"trainer.host", host_name()},
                    {"trainer.device", origin.device},
                    {"trainer.data", origin.data_fingerprint}};
    options.environment = environment();
    options.warn = warn;
    job.hooks.push_back(hooks::make_mlflow_hook(job.config, std::move(options)));
  }
  if (arguments.json) {
    commands::print_model_json(commands::measured_keys(layers, job.config), std::cout);
  }
}

// NCCL waits for ever where ranks differ in these.
std::string nccl_environment() {
  std::string text;
  const config::Environment variables = environment();
  for (const char* name : {"NCCL_ALGO", "NCCL_PROTO"}) {
    const auto found = variables.find(name);
    text += concat(name, "=", found == variables.end() ? "" : found->second, "\n");
  }
  return text;
}

// Runs the training of this process, alone or as a part of a job. When an exception ends it, the
// other processes get the reason. `servers` is null unless the job has parameter servers.
hooks::FinishReason run(const TrainArguments& arguments, const config::Config& config,
                        const data::Datasets& data, const graph::Graph& model,
                        train::ProcessGroup& group, const engine::LocalPlace& place,
                        train::ParameterServers* servers = nullptr) {
  try {
    train::agree_on_data(group, config, data, nccl_environment());
    engine::Replicas engine(model, config, engine::open_backends(config, group.size(), place),
                            engine::Engine::Use::kTrain, group.gradients());
    train::Job job{config, data, engine,
                   train::plan_steps(config, data.train->size(), group.size()), group};
    job.run = train::run_folder(config);
    job.shared_features = arguments.features_dir;
    job.build = version();
    job.start = choose_start(arguments);
    const bool chief = group.is_chief();
    job.warn = chief ? warn : [](const Notice&) {};  // all would print the same
    std::optional<checkpoint::RunLock> lock;
    if (chief) open_run(arguments, model, place, job, lock);
    return (servers == nullptr ? train::train(job) : train::train_with_servers(job, *servers))
        .reason;
  } catch (const std::exception& error) {
    group.fail(error);
    if (servers != nullptr) servers->fail(error.what());
    throw;
  }
}

// Returns the place that the launcher or the cluster has set, before a rendezvous.
engine::LocalPlace find_place(const cluster::Identity& who) {
  if (!who.local_size) return {};
  return {who.local_rank.value_or(0), *who.local_size};
}

std::function<void(const std::string&)> printer(const TrainArguments& arguments) {
  if (arguments.quiet || arguments.json) return [](const std::string&) {};
  return [](const std::string& line) { std::cout << line << std::endl; };
}

hooks::FinishReason run_in_step(const TrainArguments& arguments, const config::Config& config,
                                const data::Datasets& data, const graph::Graph& model,
                                std::shared_ptr<cluster::Rendezvous> rendezvous) {
  train::ProcessGroup group(std::move(rendezvous), config, model, printer(arguments));
  return run(arguments, config, data, model, group, group.place());
}

hooks::FinishReason run_chief(const TrainArguments& arguments, const config::Config& config,
                              const data::Datasets& data, const graph::Graph& model,
                              const cluster::Identity& who) {
  train::ParameterServers servers(who, config);
  train::ProcessGroup alone;
  return run(arguments, config, data, model, alone, find_place(who), &servers);
}

hooks::FinishReason run_worker(const config::Config& config, const data::Datasets& data,
                               const graph::Graph& model, const cluster::Identity& who) {
  engine::Replicas engine(model, config, engine::open_backends(config, 1, find_place(who)),
                          engine::Engine::Use::kTrain);
  engine.initialise(config.seed);
  engine.write(model::import_weights(engine.model(), config.model).tensors);
  train::ParameterServers servers(who, config, train::common_model(data, engine));
  return train::work(config, data, engine, servers);
}

int evaluator(const TrainArguments& arguments, const config::Config& config) {
  EvaluateArguments follower;
  follower.model = train::run_folder(config);
  follower.follow = true;
  follower.overrides = arguments.overrides;
  follower.json = arguments.json;
  follower.quiet = arguments.quiet;
  return evaluate(follower);
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
                        const data::Datasets& data, const graph::Graph& model) {
  if (!config.train.batch_size.is_automatic()) return;
  const Path stored = train::config_file(train::run_folder(config));
  if (arguments.resume && std::filesystem::exists(stored)) {
    config.train.batch_size = config::parse_recorded_config(read_text_file(stored), stored.string())
                                  .config.train.batch_size;
    return;
  }
  warn(train::resolve_batch_size(config, model, data.train->size()));
}

// Opens the data, builds the model and trains. `rendezvous` is null unless the processes train in
// step.
int train_here(const TrainArguments& arguments, config::Config& config,
               const cluster::Identity& who,
               const std::shared_ptr<cluster::Rendezvous>& rendezvous) {
  const data::Datasets data = train::open_training_data(config);
  const Notice normalize = train::resolve_normalize(config, data);
  if (who.rank == 0) {
    for (const Notice& notice : list_notices(data)) warn(notice);
    warn(normalize);
  }
  const graph::Graph model =
      model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
  train::check_trainable(config, model);
  resolve_batch_size(arguments, config, data, model);
  if (rendezvous) return to_exit_code(run_in_step(arguments, config, data, model, rendezvous));
  if (train::has_parameter_servers(who)) {
    return to_exit_code(who.role == cluster::Role::kChief
                            ? run_chief(arguments, config, data, model, who)
                            : run_worker(config, data, model, who));
  }
  if (config.parallel.strategy == config::Parallel::Strategy::kParameterServer) {
    printer(arguments)("parallel.strategy: parameter_server, but no cluster: this process alone");
  }
  train::ProcessGroup alone;
  return to_exit_code(run(arguments, config, data, model, alone, {}));
}

// Joins before the data is opened, so that the other ranks wait for a rank with slow storage and
// get the reason when it fails.
int train_in_step(const TrainArguments& arguments, config::Config& config,
                  const cluster::Identity& who) {
  const std::shared_ptr<cluster::Rendezvous> rendezvous = train::join_job(who, config, warn);
  try {
    return train_here(arguments, config, who, rendezvous);
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

int train(TrainArguments arguments) {
  const train::StartupSignals signals;
  const FinishOutput output;  // while a signal still ends with kExitInterrupted
  cluster::Identity who = cluster::identify(arguments.identity, environment());
  who.build = version();
  config::LoadedConfig loaded = load_for_devices(arguments, find_place(who).size);
  const bool is_of_run = is_run(arguments.path);
  if (is_of_run) check_is_own_folder(arguments.path, loaded);
  // The config of a run gives every value, also those that nobody has set.
  const config::Origin::Kind log_every = loaded.origins.at("run.log_every").kind;
  arguments.has_log_every = log_every != config::Origin::Kind::kDefault &&
                            !(is_of_run && log_every == config::Origin::Kind::kFile);
  config::Config config = std::move(loaded.config);
  train::check_workers(config, who);
  if (cluster::accepts_unauthenticated_peers(who) && who.rank <= 0) {
    const std::vector<cluster::Address>& servers = who.cluster.ps;
    const bool serves = who.role == cluster::Role::kParameterServer;
    const cluster::Address& open =
        servers.empty() ? who.master : servers[serves ? static_cast<std::size_t>(who.index) : 0];
    warn(concat("this job has no secret: whoever reaches its ports (the first is ",
                cluster::to_string(open),
                ") can read its weights, change or end it; give all its processes the same one ",
                "(TRAINER_SECRET, or --secret-file FILE)"));
  }
  if (who.role == cluster::Role::kEvaluator) return evaluator(arguments, config);
  if (who.role == cluster::Role::kParameterServer) {
    return to_exit_code(train::serve(config, who, printer(arguments)));
  }
  if (who.rank == 0) warn(backend::device_warning(engine::device_options(config.parallel)));
  check_batch_size(config, who);
  const bool in_step = who.size > 1 && !train::has_parameter_servers(who);
  return in_step ? train_in_step(arguments, config, who)
                 : train_here(arguments, config, who, nullptr);
}

}  // namespace

void add_train(CommandLine& line) {
  const auto arguments = std::make_shared<TrainArguments>();
  const Command command = line.add_command("train", "Build and run the job");
  add_config(command, *arguments);
  const Option resume =
      command.add_flag("--resume", arguments->resume, "Go on from the run's last checkpoint");
  command.add_flag("--overwrite", arguments->overwrite, "Replace an earlier run in this folder")
      .excludes(resume);
  command
      .add_action(
          "--fold",
          [arguments](const std::string& value) {
            arguments->overrides.push_back({"data.fold", value, "--fold"});
          },
          "Validate with part K of data.folds and train with the other parts (data.fold); the run "
          "is runs/<name>_foldK without --run-dir")
      .type_name("K")
      .in_order();
  command
      .add_option("--features-dir", arguments->features_dir,
                  "Folder for the cached outputs of frozen layers, which runs share; those of the "
                  "run folder when left out")
      .type_name("FOLDER");
  command.add_option("--rank", arguments->identity.rank,
                     "Which of several processes this is, 0 being the chief; else set by "
                     "TF_CONFIG, torchrun, Slurm or mpirun");
  command.add_option("--world-size", arguments->identity.world_size,
                     "How many processes train together");
  command.add_option("--master", arguments->identity.master, "Where the process of rank 0 listens")
      .type_name("HOST:PORT");
  command
      .add_option("--secret-file", arguments->identity.secret_file,
                  "File with the secret that all processes of the job share; else "
                  "TRAINER_SECRET")
      .type_name("FILE");
  command.run([arguments] { return train(*arguments); });
}

}  // namespace trainer::app
