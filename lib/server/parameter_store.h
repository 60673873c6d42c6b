// The state of a parameter server and the order of its updates: everything of a server except the
// network.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/shard.h"
#include "base/numbers/partition.h"
#include "server/client.h"
#include "server/server.h"

namespace trainer::server {

// Thread-safe. A call with a wrong number of values, or before start(), throws
// std::invalid_argument.
class ParameterStore {
 public:
  // The first server of the job numbers the updates, checks their staleness and holds the moving
  // statistics. The other servers follow its numbers.
  struct First {
    std::optional<std::int64_t> max_staleness;
  };
  explicit ParameterStore(std::optional<First> first) : first_(first) {}

  // Once: elements `part` of the flat buffers.
  void initialise(const Start& start, Partition part, LearningRate rate);
  void write(backend::FlatBuffer buffer, std::span<const float> values);
  void start();

  struct Push {
    std::int64_t pulled = 0;
    std::int64_t update = 0;  // the first server gives its own
    backend::Gradient gradient;
    std::span<const float> statistics_before, statistics;
  };
  // The bytes of the values as they are now are appended to the two strings, unless kOver.
  Pushed push(const Push& push, std::string& parameters, std::string& statistics);
  Pushed pull(std::string& parameters, std::string& statistics);
  void saved(std::int64_t step);  // a checkpoint, for others to know

  // While held, push() waits. Returns the global step.
  std::int64_t hold();
  void release();
  Staleness staleness() const;
  // Appends the values after `step` updates. Waits at most `patience` for these: an update whose
  // worker has died in between never arrives.
  void read(backend::FlatBuffer buffer, std::int64_t step, std::chrono::milliseconds patience,
            std::string& values);

  std::int64_t step() const;
  // Makes push() return kOver without waiting.
  void close();

 private:
  std::span<float> values(backend::FlatBuffer buffer);
  void apply(const Push& push, Pushed& pushed);
  void move_statistics(const Push& push, bool alone);

  const std::optional<First> first_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<backend::ParameterShard> shard_;
  std::size_t count_ = 0, segments_ = 0;
  std::vector<float> statistics_;
  LearningRate rate_;
  bool started_ = false, held_ = false, closed_ = false;
  std::int64_t total_ = 0, saved_ = 0;
  std::int64_t step_ = 0;  // updates that the job has done
  std::int64_t applied_ = 0, staleness_sum_ = 0;
  Staleness staleness_;
};

}  // namespace trainer::server
