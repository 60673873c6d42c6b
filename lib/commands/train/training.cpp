#include "commands/train/training.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/process/memory.h"
#include "base/process/process.h"
#include "checkpoint/lock.h"
#include "commands/measure/measured.h"
#include "commands/train/origin.h"
#include "hooks/data_report.h"
#include "hooks/run_record.h"
#include "model/files/import.h"
#include "model/table.h"
#include "results/page/sheet.h"
#include "results/run_files/run_warnings.h"
#include "results/write_json.h"
#include "train/common_files.h"
#include "train/host_memory.h"
#include "train/loop.h"
#include "train/open.h"
#include "train/process_group.h"
#include "train/run_dir.h"
#include "train/servers/asynchronous.h"
#include "train/servers/server_loop.h"
#include "train/signals.h"
#include "train/warnings.h"

namespace trainer::commands {
namespace {

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

// Returns a function that shows notices by `warn` and keeps the warnings in the run folder.
Warn keep_warnings(const Path& run, const Warn& warn) {
  return [run, warn](const Notice& notice) {
    warn(notice);
    if (notice.text.empty() || notice.kind != Notice::Kind::kWarning) return;
    const std::string now = hooks::utc_time(std::chrono::system_clock::now());
    results::add_run_warning(run, {now, notice.text});
  };
}

// Locks and prepares the run folder, which only the chief has, makes the hooks and sets job.warn.
// `place` is the place of this process among the processes of the job on this machine.
void open_run(const Training& training, const engine::LocalPlace& place, train::Job& job,
              std::optional<checkpoint::RunLock>& lock) {
  const TrainArguments& arguments = training.arguments;
  const Context& context = training.context;
  if (job.start != train::Start::kResume)
    model::check_weights_exist(job.config.model, context.environment);
  train::check_outside_data(job.run, job.config);
  if (!job.shared_features.empty()) {
    train::check_outside_data(job.shared_features, job.config, "--features-dir");
  }
  try {
    lock.emplace(job.run);
  } catch (const Error& error) {
    const cluster::Identity who = cluster::identify(arguments.identity, context.environment);
    const Notice notice = cluster::launch_notice(who, context.environment);
    if (error.code() != kExitConfig || notice.text.empty()) throw;
    throw Error(kExitConfig, error.what(), "; ", notice.text);
  }
  context.warn(lock->warning());
  train::prepare_run_folder(job.run, job.config, job.start);
  const Warn warn = keep_warnings(job.run, context.warn);
  job.warn = warn;
  for (const std::string& line :
       train::config_warnings(job.config, train::sample_spec(job.data), job.plan)) {
    warn(line);
  }
  if (job.engine.backend().reads_host_memory()) {
    // The engine's memory is not resident yet: the system assigns it at the first write.
    warn(train::host_memory_warning(training.model, job.config, training.platform,
                                    job.engine.memory(),
                                    available_memory() / std::max(1, place.size)));
  }
  warn(train::sync_warning(job.run));
  std::string libraries;
  if (!job.engine.backend().reads_host_memory()) {
    const bool nccl = engine::uses_nccl(job.config.parallel, training.platform, job.group.size());
    libraries = backend::find_gpu_libraries(training.platform, nccl).versions;
  }
  job.hooks = hooks::make_hooks(
      job.config, context.out,
      {context.out_is_terminal,
       arguments.quiet,
       arguments.json,
       {context.columns, std::chrono::system_clock::now, train::SignalWatch::output_closed,
        describe_session(job), libraries, training.has_log_every ? 0 : kMinLogSeconds},
       warn,
       [&job] { return draw_first_samples(job); }});
  job.hooks.insert(job.hooks.begin(),
                   hooks::make_data_report_hook(job.data, context.warn,
                                                arguments.json ? &context.out : nullptr));
  if (job.config.run.ledger) {
    job.hooks.push_back(hooks::make_ledger_hook(
        [&engine = job.engine] { return engine.replica().parameters_sha256(); }, warn));
  }
  const std::vector<model::LayerRow> layers = model::layer_table(training.model);
  results::RunRecord origin = make_origin(job, layers);
  if (!libraries.empty()) origin.libraries = libraries;
  job.hooks.push_back(hooks::make_run_record_hook(origin, warn));
  if (!job.config.run.mlflow.empty()) {
    hooks::MlflowOptions options;
    options.tags = {{"trainer.version", origin.program},
                    {"trainer.host", host_name()},
                    {"trainer.device", origin.device},
                    {"trainer.data", origin.data}};
    options.environment = context.environment;
    options.warn = warn;
    job.hooks.push_back(hooks::make_mlflow_hook(job.config, std::move(options)));
  }
  if (auto hook = hooks::make_kubeflow_hook({context.environment, warn})) {
    job.hooks.push_back(std::move(hook));
  }
  if (!job.config.run.prometheus.empty()) {
    job.hooks.push_back(hooks::make_prometheus_hook(job.config, {job.progress, warn}));
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

}  // namespace

engine::LocalPlace find_place(const cluster::Identity& who) {
  if (!who.local_size) return {};
  return {who.local_rank.value_or(0), *who.local_size};
}

std::function<void(const std::string&)> make_printer(const TrainArguments& arguments,
                                                     const Context& context) {
  if (arguments.quiet || arguments.json) return [](const std::string&) {};
  return [&out = context.out](const std::string& line) { out << line << std::endl; };
}

hooks::FinishReason train_alone(const Training& training) {
  train::ProcessGroup alone;
  return run_job(training, alone, {});
}

hooks::FinishReason train_in_step(const Training& training,
                                  std::shared_ptr<cluster::Rendezvous> rendezvous) {
  train::ProcessGroup group(std::move(rendezvous), training.config, training.platform,
                            make_printer(training.arguments, training.context));
  return run_job(training, group, group.place());
}

hooks::FinishReason train_as_chief_or_worker(const Training& training,
                                             const cluster::Identity& who) {
  if (who.role != cluster::Role::kChief) return run_worker(training, who);
  train::ParameterServers servers(who, training.config);
  train::ProcessGroup alone;
  return run_job(training, alone, find_place(who), &servers);
}

}  // namespace trainer::commands
