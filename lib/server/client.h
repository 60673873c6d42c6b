// A chief's or worker's connections to the parameter servers of its job.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cluster/identity.h"

namespace trainer::server {

struct ClientOptions {
  // Until all servers, and for a worker the chief, must be there; and the longest that any call may
  // take. A server that is silent for three quarters of it counts as gone.
  std::chrono::milliseconds timeout{60'000};
  std::string agreement;  // facts that must be equal on all tasks, one a line
  std::string model;      // of a worker: what must be as the chief's Start says, a fact a line
};

// What the servers know of the job.
struct Start {
  backend::Flat flat;
  std::int64_t step = 0;  // updates done
  std::int64_t total_steps = 0;
  std::int64_t train_samples = 0;
  std::string model;  // what all workers must have alike besides, a fact a line
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
  double learning_rate = 0;    // of the update
};

struct Staleness {
  std::int64_t refused = 0;  // gradients dropped
  double mean = 0;           // of those applied
  std::int64_t max = 0;
};

struct Outcome {
  enum class Kind {
    kDone,
    kInterrupted,
    kFailed,
    kRefused  // of one worker: its agreement differs
  } kind = Kind::kDone;
  std::string message;  // why it failed
};

// Reads or writes elements [first, first + size) of a model's flat buffer.
using Source =
    std::function<void(backend::FlatBuffer buffer, std::int64_t first, std::span<float> to)>;
using Sink =
    std::function<void(backend::FlatBuffer buffer, std::int64_t first, std::span<const float>)>;

// All calls throw PeerError, naming the server and its address, when one has gone, is silent or has
// failed; a worker's also when the chief has. They come from one thread.
class Client {
 public:
  // Waits for the servers. Throws ConfigError when they were told something else, PeerError when
  // one does not come.
  Client(const cluster::Identity& who, const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool is_chief() const;
  std::size_t servers() const;

  // The chief's: gives the servers all there is. ConfigError when a server's part is too large.
  void start(const Start& start, const Source& values);
  // A worker's: waits until the chief has.
  void wait_until_started(const backend::Flat& flat);

  // Gets the newest parameters and statistics, and their global step.
  Pushed pull(const Sink& sink);
  // Gives a gradient that was computed with the parameters of global step `pulled`, and gets the
  // newest parameters and statistics, unless kOver. `statistics` are what the step made of
  // `before`. The sink is called once all has come.
  Pushed push(std::int64_t pulled, const backend::Gradient& gradient, std::span<const float> before,
              std::span<const float> statistics, const Sink& sink);
  // The chief's: one state of all servers, while none of them updates. Returns its global step.
  std::int64_t read(const Sink& sink);
  Staleness staleness() const;  // as of the last read()

  // The chief's: there is a checkpoint of this step.
  void saved(std::int64_t step);
  // The chief's: the servers and workers end. Tells those that can be reached.
  void finish(const Outcome& outcome) noexcept;

  // Throws what a call would throw.
  void check() const;
  bool lost() const;  // whether a server has gone or has refused this task
  // What the chief told the servers at the end.
  std::optional<Outcome> outcome() const;
  // The chief's: a server was asked to stop, so that all should.
  bool stop_requested() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainer::server
