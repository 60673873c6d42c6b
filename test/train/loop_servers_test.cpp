// The training loop of the chief of a job with parameter servers, all in one process: the server
// and a worker are threads.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "cluster/transport/socket.h"
#include "support.h"
#include "train/servers/asynchronous.h"

namespace trainer::train {
namespace {

using namespace support;

// A chief, a server, and so many workers besides.
class Servers {
 public:
  Servers(const config::Config& config, int workers) : config_(config), trial(config) {
    who_.source = "TF_CONFIG";
    who_.size = 1 + workers;
    who_.cluster.chief = {{"127.0.0.1", ports_[0].number()}};
    who_.cluster.ps = {{"127.0.0.1", ports_[1].number()}};
    for (int i = 0; i < workers; ++i) {
      who_.cluster.worker.push_back(
          {"127.0.0.1", ports_[static_cast<std::size_t>(2 + i)].number()});
    }
  }

  hooks::Finish run(Start start = Start::kFresh) {
    std::thread server([this] { serve_as(); });
    std::vector<std::thread> workers;
    for (int i = 0; i < who_.size - 1; ++i) workers.emplace_back([this, i] { work_as(i); });
    hooks::Finish finish;
    {
      ParameterServers servers(task(cluster::Role::kChief, 0), config_);
      ProcessGroup alone;
      try {
        finish = trial.run(alone, start, &servers);
      } catch (const std::exception& error) {
        servers.fail(error.what());
        failure = error.what();
      }
    }
    server.join();
    for (std::thread& worker : workers) worker.join();
    return finish;
  }

 private:
  cluster::Identity task(cluster::Role role, int index) const {
    cluster::Identity identity = who_;
    identity.role = role;
    identity.index = index;
    identity.rank = role == cluster::Role::kChief    ? 0
                    : role == cluster::Role::kWorker ? 1 + index
                                                     : -1;
    return identity;
  }

  void serve_as() {
    try {
      served = serve(config_, task(cluster::Role::kParameterServer, 0), [](const std::string&) {});
    } catch (const PeerError& error) {
      server_failure = error.what();
    }
  }

  void work_as(int index) {
    Trial own(config_);
    engine::Engine engine(own.model(), config_, open_test_backends(1), engine::Use::kTrain);
    engine.initialise(config_.seed);
    ParameterServers servers(task(cluster::Role::kWorker, index), config_,
                             common_model(own.data, engine));
    worked = work(config_, own.data, engine, servers);
  }

  config::Config config_;
  cluster::Identity who_;
  std::array<cluster::ReservedPort, 4> ports_;

 public:
  Trial trial;  // the chief's
  FinishReason served = FinishReason::kAlreadyDone;
  std::atomic<FinishReason> worked = FinishReason::kAlreadyDone;
  std::string failure, server_failure;
};

config::Config server_config(const std::string& rest = "", const std::string& model = kDense) {
  config::Config config = run_config(rest, model);
  config.parallel.strategy = config::Parallel::Strategy::kParameterServer;
  config.parallel.timeout = {20, config::Duration::Unit::kSeconds};
  return config;
}

}  // namespace

TEST_CASE("servers: a chief without workers makes the steps of one process") {
  Servers servers(server_config("run: {evaluate_every: 3 steps, checkpoint_every: 2 steps}\n"), 0);
  servers.trial.add_split(Split::kValidation);
  const hooks::Finish finish = servers.run();
  CHECK(servers.failure == "");
  CHECK(servers.trial.events == Events{"start 0", "save 0", "step 1", "step 2", "save 2", "step 3",
                                       "validation 3", "step 4", "save 4", "step 5", "step 6",
                                       "save 6", "validation 6", "finish done"});
  CHECK(servers.served == FinishReason::kDone);
  REQUIRE(finish.staleness);
  CHECK(finish.staleness->max == 0);
  Trial alone(run_config());
  CHECK(finish.parameters_sha256 == alone.run().parameters_sha256);
}

TEST_CASE("servers: drop_remainder gives the steps of one process") {
  config::Config config = server_config();
  config.train.batch_size = 16;  // 24 = 16 + 8; a power of two, by which means are exact
  config.train.epochs = 2;
  config.data.drop_remainder = true;
  Servers servers(config, 0);
  const hooks::Finish finish = servers.run();
  CHECK(servers.failure == "");
  CHECK(finish.steps == 2);
  config::Config plain = config;
  plain.parallel.strategy = config::Parallel::Strategy::kAllReduce;
  Trial alone(plain);
  CHECK(finish.parameters_sha256 == alone.run().parameters_sha256);
}

TEST_CASE("servers: chief and worker advance the same step, and the job ends for all") {
  config::Config config = server_config();
  config.train.epochs = 20;
  Servers servers(config, 1);
  const hooks::Finish finish = servers.run();
  CHECK(servers.failure == "");
  CHECK(finish.reason == FinishReason::kDone);
  CHECK(finish.steps == 120);
  CHECK(servers.worked.load() == FinishReason::kDone);
  CHECK(servers.trial.events.back() == "finish done");
  CHECK(servers.trial.events[servers.trial.events.size() - 2] == "save 120");
}

namespace {

// Adds up the samples, steps and times of all on_step() calls, and notes the step of the last one.
class SampleCounter final : public hooks::Hook {
 public:
  struct Counts {
    std::int64_t samples = 0, steps = 0, last = 0;
    double seconds = 0;
  };
  explicit SampleCounter(Counts& counts) : counts_(counts) {}
  std::string name() const override { return "sample_counter"; }
  Request on_step(const hooks::StepRecord& progress) override {
    counts_.samples += progress.samples;
    counts_.steps += progress.steps;
    counts_.last = progress.step;
    counts_.seconds += progress.step_seconds;
    return Request::kContinue;
  }

 private:
  Counts& counts_;
};

}  // namespace

// While the chief saves, the worker makes steps.
TEST_CASE("servers: the steps of a chief that saves often have the samples of all workers") {
  config::Config config = server_config("run: {checkpoint_every: 2 steps}\n");
  config.train.epochs = 40;
  Servers servers(config, 1);
  SampleCounter::Counts counts;
  servers.trial.make_hook = [&] { return std::make_unique<SampleCounter>(counts); };
  // How many steps the chief makes is chance.
  SUBCASE("in one go") { servers.run(); }
  SUBCASE("stopped and resumed") {
    servers.trial.at_step = [](std::int64_t step) {
      return step >= 100 ? Request::kStop : Request::kContinue;
    };
    servers.run();
    CHECK(counts.steps == counts.last);
    Servers resumed(config, 1);
    std::filesystem::copy(servers.trial.folder.path() / "run", resumed.trial.folder.path() / "run",
                          std::filesystem::copy_options::recursive);
    resumed.trial.make_hook = servers.trial.make_hook;
    resumed.run(Start::kResume);
    CHECK(resumed.failure == "");
  }
  CHECK(servers.failure == "");
  CHECK(counts.steps == counts.last);
  CHECK(counts.samples == counts.last * config.train.batch_size);
}

TEST_CASE("servers: the last call of hooks counts the last steps, which the worker makes") {
  std::string saves;
  SUBCASE("the chief pushes a gradient that is too late") {}
  SUBCASE("the chief saves the last step") { saves = "run: {checkpoint_every: 1 steps}\n"; }
  config::Config config = server_config(saves);
  config.train.epochs = 20;
  Servers servers(config, 1);
  SampleCounter::Counts counts;
  servers.trial.make_hook = [&] { return std::make_unique<SampleCounter>(counts); };
  servers.trial.at_step = [&](std::int64_t) {
    using std::chrono::steady_clock;
    const steady_clock::time_point limit = steady_clock::now() + std::chrono::seconds(20);
    while (servers.worked.load() != FinishReason::kDone && steady_clock::now() < limit) {
      std::this_thread::yield();
    }
    servers.trial.seconds += 100;
    return Request::kContinue;
  };
  const hooks::Finish finish = servers.run();
  CHECK(counts.seconds ==
        0);  // the clock stands still but for the hook, which is not a step's time
  CHECK(servers.failure == "");
  CHECK(servers.worked.load() == FinishReason::kDone);
  CHECK(finish.steps == 120);
  CHECK(counts.last == 120);
  CHECK(counts.steps == 120);
  CHECK(counts.samples == 120 * config.train.batch_size);
  CHECK(servers.trial.events.back() == "finish done");
}

TEST_CASE("servers: a hook of the chief stops the job, which can be resumed") {
  Servers servers(server_config("", kBatchNorm), 0);
  servers.trial.at_step = [](std::int64_t step) {
    return step == 4 ? Request::kStop : Request::kContinue;
  };
  CHECK(servers.run().reason == FinishReason::kEarlyStop);
  CHECK(servers.trial.events.back() == "finish early stop");
  Servers resumed(server_config("", kBatchNorm), 0);
  std::filesystem::copy(servers.trial.folder.path() / "run", resumed.trial.folder.path() / "run",
                        std::filesystem::copy_options::recursive);
  CHECK(resumed.run(Start::kResume).steps == 6);
  CHECK(resumed.trial.events == Events{"start 4", "step 5", "step 6", "save 6", "finish done"});
}

TEST_CASE("servers: an interrupted chief saves, and ends the job for the server") {
  Servers servers(server_config(), 0);
  servers.trial.at_step = [](std::int64_t step) {
    if (step == 3) std::raise(SIGUSR1);
    return Request::kContinue;
  };
  CHECK(servers.run().reason == FinishReason::kInterrupted);
  CHECK(servers.trial.events ==
        Events{"start 0", "save 0", "step 1", "step 2", "step 3", "save 3", "finish interrupted"});
  CHECK(servers.served == FinishReason::kInterrupted);
}

TEST_CASE("servers: data that cannot be read, and a loss that is not finite, end the job") {
  config::Config config = server_config();
  config.data.shuffle = false;
  Servers servers(config, 0);
  SUBCASE("unreadable") {
    servers.trial.train->unreadable_samples = {13};
    servers.run();
    CHECK(servers.failure.find("Stopped after step 3") != std::string::npos);
    CHECK(servers.trial.events.back() == "save 3");
    CHECK(servers.server_failure.find("sample 13 cannot be read") != std::string::npos);
  }
  SUBCASE("infinite samples") {
    servers.trial.train->infinite_samples = {13};
    servers.run();
    CHECK(servers.failure.find("Stopped after step 3") != std::string::npos);
  }
}

}  // namespace trainer::train
