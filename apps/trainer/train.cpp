#include <unistd.h>

#include <iostream>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "commands.h"
#include "hooks/data_report.h"
#include "measure/measured.h"
#include "model/import.h"
#include "model/model.h"
#include "options.h"
#include "report/events.h"
#include "train/asynchronous.h"
#include "train/loop.h"
#include "train/open.h"
#include "train/warnings.h"

namespace trainer::app {
namespace {

struct TrainArguments : ConfigArguments {
  bool resume = false;
  bool overwrite = false;
  cluster::IdentityFlags identity;
};

int code_of(const std::string& reason) {
  return reason == "interrupted" ? kExitInterrupted : kExitOk;
}

train::Start start_of(const TrainArguments& arguments) {
  return arguments.resume      ? train::Start::kResume
         : arguments.overwrite ? train::Start::kOverwrite
                               : train::Start::kFresh;
}

// The run, of this process alone or of its part in a larger one. Only the chief has a run folder.
hooks::Finish run(const TrainArguments& arguments, const config::Config& config,
                  const data::Datasets& data, const graph::Graph& model, train::Workers* workers,
                  train::ParameterServers* servers = nullptr) {
  const bool chief = workers == nullptr || workers->is_chief();
  const int count = workers == nullptr ? 1 : workers->size();
  engine::Replicas engine(model, config, engine::open_backends(config, count),
                          engine::Engine::Use::kTrain,
                          workers == nullptr ? nullptr : &workers->gradients());
  train::Job job{config, data, engine, train::plan_steps(config, data.train->size(), count)};
  job.workers = workers;
  job.servers = servers;
  job.run = train::run_folder(config);
  job.start = start_of(arguments);
  job.warn = chief ? warn : [](const std::string&) {};  // all would say the same
  std::optional<checkpoint::RunLock> lock;
  if (chief) {
    for (const std::string& line :
         train::config_warnings(config, train::sample_spec(data), job.plan)) {
      warn(line);
    }
    if (job.start != train::Start::kResume) model::check_weights_exist(config.model);
    lock.emplace(job.run);
    train::prepare_run_folder(job.run, config, job.start);
    job.hooks = hooks::make_hooks(config, std::cout,
                                  {::isatty(STDOUT_FILENO) == 1, arguments.quiet, arguments.json});
    job.hooks.insert(job.hooks.begin(), hooks::make_data_report_hook(
                                            data, warn, arguments.json ? &std::cout : nullptr));
    if (arguments.json) {
      report::print_model_json(measure::measured_keys(model::layer_table(model), config),
                               std::cout);
    }
  }
  return train::train(job);
}

// One of several processes: whatever ends it, the others are told why.
hooks::Finish run_joined(const TrainArguments& arguments, const config::Config& config,
                         const data::Datasets& data, const graph::Graph& model,
                         const cluster::Identity& who) {
  train::Workers workers(who, config, model, [&](const std::string& line) {
    if (!arguments.quiet && !arguments.json) std::cout << line << '\n';
  });
  try {
    workers.agree("training data", data.train->fingerprint());
    return run(arguments, config, data, model, &workers);
  } catch (const PeerError&) {
    throw;
  } catch (const std::exception& error) {
    workers.fail(error.what());
    throw;
  }
}

std::function<void(const std::string&)> printer(const TrainArguments& arguments) {
  if (arguments.quiet || arguments.json) return [](const std::string&) {};
  return [](const std::string& line) { std::cout << line << std::endl; };
}

// The chief of a job with parameter servers: whatever ends it, servers and workers are told why.
std::string run_chief(const TrainArguments& arguments, const config::Config& config,
                      const data::Datasets& data, const graph::Graph& model,
                      const cluster::Identity& who) {
  train::ParameterServers servers(who, config);
  try {
    const std::string reason = run(arguments, config, data, model, nullptr, &servers).reason;
    servers.finish(reason == "interrupted");
    return reason;
  } catch (const std::exception& error) {
    servers.fail(error.what());
    throw;
  }
}

std::string run_worker(const config::Config& config, const data::Datasets& data,
                       const graph::Graph& model, const cluster::Identity& who) {
  engine::Replicas engine(model, config, engine::open_backends(config),
                          engine::Engine::Use::kTrain);
  engine.initialise(config.seed);
  engine.write(model::import_weights(engine.model(), config.model).tensors);
  train::ParameterServers servers(who, config, train::common_model(data, engine));
  return train::work(config, data, engine, servers);
}

int evaluator(const TrainArguments& arguments, const config::Config& config) {
  EvaluateArguments follower;
  follower.run = train::run_folder(config);
  follower.follow = true;
  follower.overrides = arguments.overrides;
  follower.json = arguments.json;
  follower.quiet = arguments.quiet;
  return evaluate(follower);
}

int train(const TrainArguments& arguments) {
  config::Config config = load(arguments).config;
  const cluster::Identity who = cluster::identify(arguments.identity, environment());
  train::check_workers(config, who);
  if (who.role == cluster::Role::kEvaluator) return evaluator(arguments, config);
  if (who.role == cluster::Role::kParameterServer) {
    return code_of(train::serve(config, who, printer(arguments)));
  }
  if (who.rank == 0) warn(backend::device_warning(engine::device_options(config.parallel)));
  const data::Datasets data = train::open_training_data(config);
  const std::string normalize = train::settle_normalize(config, data);
  if (who.rank == 0) warn(normalize);
  const graph::Graph model =
      model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
  if (train::has_parameter_servers(who)) {
    return code_of(who.role == cluster::Role::kChief
                       ? run_chief(arguments, config, data, model, who)
                       : run_worker(config, data, model, who));
  }
  if (config.parallel.strategy == config::Parallel::Strategy::kParameterServer) {
    printer(arguments)("parallel.strategy: parameter_server, but no cluster: this process alone");
  }
  const hooks::Finish finish = who.size == 1 ? run(arguments, config, data, model, nullptr)
                                             : run_joined(arguments, config, data, model, who);
  return code_of(finish.reason);
}

}  // namespace

void add_train(CLI::App& app, int& code) {
  const auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Build and run the job");
  add_config(*command, *arguments);
  CLI::Option* resume =
      command->add_flag("--resume", arguments->resume, "Go on from the run's last checkpoint");
  command->add_flag("--overwrite", arguments->overwrite, "Replace an earlier run in this folder")
      ->excludes(resume);
  command->add_option("--rank", arguments->identity.rank,
                      "Which of several processes this is, 0 being the chief; else told by "
                      "TF_CONFIG, torchrun, Slurm or mpirun");
  command->add_option("--world-size", arguments->identity.world_size,
                      "How many processes train together");
  command->add_option("--master", arguments->identity.master, "Where the process of rank 0 listens")
      ->type_name("HOST:PORT");
  command->callback([arguments, &code] { code = train(*arguments); });
}

}  // namespace trainer::app
