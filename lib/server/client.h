// A chief's or worker's connections to the parameter servers of its job.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backend/backend.h"
#include "cluster/identity.h"

namespace trainer::server {

struct ClientOptions {
  // How long to wait for all servers, and for a worker also for the chief; and the longest that any
  // call may take. A server that is silent for three quarters of it counts as gone.
  std::chrono::milliseconds timeout{60'000};
  std::string agreement;  // facts that must be equal on all tasks, one per line
  std::string model;      // a worker's facts that must equal the chief's Start::model
};

// The job as the chief describes it to the servers.
struct Start {
  backend::Flat flat;
  std::int64_t step = 0;  // updates done
  std::int64_t total_steps = 0;
  std::int64_t train_samples = 0;
  std::string model;  // further facts that must be equal on all workers, one per line
};

struct Pushed {
  enum class Result {
    kApplied,
    kStale,  // dropped: more than max_staleness updates since its parameters were pulled
    kOver    // dropped: the job had its last step
  } result = Result::kApplied;
  std::int64_t update = 0;     // the number of this update, from 1
  std::int64_t step = 0;       // global step of the parameters that came back
  std::int64_t staleness = 0;  // updates of others between pull and push
  std::int64_t saved = 0;      // step of the chief's last checkpoint
  double learning_rate = 0;    // the rate of the update
};

struct Staleness {
  std::int64_t refused = 0;  // gradients dropped
  double mean = 0;           // the mean of those applied
  std::int64_t max = 0;
};

struct Outcome {
  enum class Kind {
    kDone,
    kInterrupted,
    kFailed,
    kRefused  // rejected for one worker, whose agreement differs
  } kind = Kind::kDone;
  std::string message;  // the reason for the failure
};

// Reads or writes elements [first, first + size) of a model's flat buffer.
using Source =
    std::function<void(backend::FlatBuffer buffer, std::int64_t first, std::span<float> to)>;
using Sink =
    std::function<void(backend::FlatBuffer buffer, std::int64_t first, std::span<const float>)>;

// The connections of a chief or worker. All calls throw PeerError, naming server and address, when
// a server (for a worker also the chief) has gone, is silent or has failed. Not thread-safe.
class Client {
 public:
  // Waits for the servers. Throws ConfigError when their agreement differs, PeerError when a server
  // does not answer.
  Client(const cluster::Identity& who, const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool is_chief() const;
  std::size_t servers() const;

  // Chief only: sends all values to the servers. Throws ConfigError for a shard that is too large.
  void start(const Start& start, const Source& values);
  // Workers only: waits for the chief's start().
  void wait_until_started(const backend::Flat& flat);

  // Pulls the newest parameters and statistics, and their global step.
  Pushed pull(const Sink& sink);
  // Pushes a gradient that was computed with the parameters of global step `pulled`, and pulls the
  // newest parameters and statistics, unless kOver. The step changed the moving statistics from
  // `before` to `statistics`. Calls the sink after all replies have arrived.
  Pushed push(std::int64_t pulled, const backend::Gradient& gradient, std::span<const float> before,
              std::span<const float> statistics, const Sink& sink);
  // Chief only: reads one consistent state of all servers. Returns its global step.
  std::int64_t read(const Sink& sink);
  Staleness staleness() const;  // the staleness at the last read()

  // Chief only: reports a checkpoint of this step to the servers.
  void saved(std::int64_t step);
  // Chief only: ends the job on all servers and workers that can be reached.
  void finish(const Outcome& outcome) noexcept;

  // Throws what any other call would throw now.
  void check() const;
  bool lost() const;  // true if a server has gone or has rejected this task
  // How the chief ended the job; none while it runs.
  std::optional<Outcome> outcome() const;
  // Chief only: whether a server was asked to stop, which ends the job.
  bool stop_requested() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainer::server
