// A parameter server: a share of a model's parameters and optimizer slots, and the updates of them
// that workers' gradients ask for, in the order in which these come.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cluster/identity.h"
#include "server/client.h"

namespace trainer::server {

// The learning rate of update number `step`, from 0, for so many training samples.
using LearningRate = std::function<double(std::int64_t step)>;

struct ServerOptions {
  std::chrono::milliseconds timeout{
      60'000};            // until the chief must be there, and see ClientOptions
  std::string agreement;  // see ClientOptions
  std::optional<std::int64_t> max_staleness;
  std::function<LearningRate(std::int64_t train_samples)> learning_rate;
  std::function<void(const std::string&)> say;  // who comes and goes, a line each; any thread
};

class Server {
 public:
  // Listens at the task's address, on loopback when that is what it is, on all interfaces
  // otherwise. Throws ConfigError when it cannot.
  Server(const cluster::Identity& who, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Waits so long for the end of the job: by the chief, or because the chief has gone or did not
  // come, which gives kFailed.
  std::optional<Outcome> wait(std::chrono::milliseconds time);
  // Asks the chief to save and to end the job. False when there is none.
  bool request_stop();
  // Tells all tasks that are there how the job has ended, and lets them go.
  void close(const Outcome& outcome);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainer::server
