// A parameter server: holds a shard of a model's parameters and optimizer slots, and updates it
// with the gradients of the workers in the order in which they arrive.
// Reasons: lib/decisions/server.md#server-0-numbers-the-updates.
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

// The learning rate of update number `step`, from 0.
using LearningRate = std::function<double(std::int64_t step)>;

struct ServerOptions {
  std::chrono::milliseconds timeout{
      60'000};            // the longest wait for the chief, and see ClientOptions
  std::string agreement;  // see ClientOptions
  std::optional<std::int64_t> max_staleness;
  std::function<LearningRate(std::int64_t train_samples)> learning_rate;
  std::function<void(const std::string&)> say;  // reports each arrival and departure; any thread
};

class Server {
 public:
  // Listens at the task's address: on the loopback interface if the address is one of it, on all
  // interfaces otherwise. Throws ConfigError when it cannot listen.
  Server(const cluster::Identity& who, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Waits at most `time` for the end of the job. kFailed when the chief has gone or did not
  // connect; none when the job goes on.
  std::optional<Outcome> wait(std::chrono::milliseconds time);
  // Asks the chief to save and to end the job. False when no chief is connected.
  bool request_stop();
  // Tells all connected tasks how the job has ended, and closes their connections.
  void close(const Outcome& outcome);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainer::server
