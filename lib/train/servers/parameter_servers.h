// Connects the engine of a chief or worker to the parameter servers: trained parameters, slots and
// moving statistics are pulled from the servers, gradients are pushed to them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/open.h"
#include "engine/engine.h"
#include "server/client.h"
#include "train/schedule/training_plan.h"

namespace trainer::train {

// Returns whether this task's job has parameter servers.
bool has_parameter_servers(const cluster::Identity& who);

// Returns the facts that must be equal on the chief and all workers, one per line: the training
// data, and the weights of frozen layers, which the servers do not hold.
std::string common_model(const data::Datasets& data, const engine::Engine& engine);

// Returns the facts that must be equal on all tasks of a job, one per line.
std::string agreement_facts(const cluster::Identity& who, const config::Config& config);
// Returns parallel.timeout.
std::chrono::milliseconds exchange_timeout(const config::Config& config);

class ParameterServers {
 public:
  // Waits for the servers. `model` is common_model() on a worker. Throws what server::Client's
  // constructor throws.
  ParameterServers(const cluster::Identity& who, const config::Config& config,
                   const std::string& model = {});

  bool is_chief() const { return client_.is_chief(); }
  int worker() const { return who_.rank; }  // the rank among chief (0) and workers
  int workers() const { return who_.size; }
  std::string describe() const;  // "3 workers, 1 parameter server, asynchronous"
  server::Client& client() { return client_; }

  // Chief only: sends the engine's parameters, slots and statistics after `step` updates.
  void start(engine::Engine& engine, const std::string& model, std::int64_t step,
             const TrainingPlan& plan);
  // Workers only: waits for the chief's start() and pulls.
  void join(engine::Engine& engine);

  // Pulls the latest parameters and statistics into the engine. Returns false if the job is over.
  bool pull(engine::Engine& engine);
  // Pushes the gradient of the engine's last call, which did not update, and pulls.
  server::Pushed push(engine::Engine& engine);
  // Chief only: pulls parameters, statistics and slots of one global step, and returns that step.
  std::int64_t read(engine::Engine& engine);

  // Chief only: ends the job, done or failed.
  void finish(bool interrupted) noexcept;
  void fail(const std::string& message) noexcept;

  std::int64_t step() const { return pulled_; }  // step of the engine's parameters
  std::int64_t saved() const { return saved_; }  // step of the newest checkpoint reported here

 private:
  server::Sink make_sink(engine::Engine& engine);
  void record(const server::Pushed& pushed);

  const cluster::Identity who_;
  server::Client client_;
  std::int64_t pulled_ = 0, saved_ = 0;
  std::vector<float> before_,
      after_;  // moving statistics: as they were pulled, as a step left them
};

}  // namespace trainer::train
