// The pieces of work that a device does in a call, for profiles.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/spelling.h"
#include "graph/graph.h"

namespace trainer::backend {

// A piece of work of one thread. Its texts belong to the executable and live as long as it.
struct WorkRecord {
  using Clock = std::chrono::steady_clock;
  enum class Kind {
    kLayer,
    kPackWeights,     // packing of weights into the layouts that layers read
    kWaitForThreads,  // waiting for the other threads of the device
    kSumGradients,    // sums over threads and calls
    kAllReduce,       // sums over ranks, with the wait for them
    kUpdate
  };
  Kind kind = Kind::kLayer;
  std::string_view layer;           // kLayer: the node's name
  std::string_view implementation;  // kLayer only
  graph::Phase phase = graph::Phase::kForward;
  int thread = 0;          // kReductionThread for the thread that sums over ranks
  std::int64_t bytes = 0;  // kAllReduce only
  Clock::time_point start, end;
};
constexpr int kReductionThread = -1;
constexpr auto spellings(WorkRecord::Kind) {
  using enum WorkRecord::Kind;
  return std::to_array<Spelling<WorkRecord::Kind>>({{kLayer, "layer"},
                                                    {kPackWeights, "packing of weights"},
                                                    {kWaitForThreads, "waiting for threads"},
                                                    {kSumGradients, "sum of gradients"},
                                                    {kAllReduce, "all-reduce"},
                                                    {kUpdate, "update"}});
}

// Keeps the records of a device; any thread may add.
class WorkRecorder {
 public:
  void add(const WorkRecord& record) {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }
  // Returns the records since the last call.
  std::vector<WorkRecord> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(records_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<WorkRecord> records_;
};

// Records the work of its own lifetime; does nothing if the recorder is null.
class RecordedWork {
 public:
  RecordedWork(WorkRecorder* recorder, WorkRecord::Kind kind, int thread, std::int64_t bytes = 0)
      : recorder_(recorder) {
    if (recorder_ == nullptr) return;
    record_.kind = kind;
    record_.thread = thread;
    record_.bytes = bytes;
    record_.start = WorkRecord::Clock::now();
  }
  ~RecordedWork() {
    if (recorder_ == nullptr) return;
    record_.end = WorkRecord::Clock::now();
    recorder_->add(record_);
  }
  RecordedWork(const RecordedWork&) = delete;
  RecordedWork& operator=(const RecordedWork&) = delete;
  void set_layer(std::string_view layer, std::string_view implementation, graph::Phase phase) {
    record_.layer = layer;
    record_.implementation = implementation;
    record_.phase = phase;
  }

 private:
  WorkRecorder* recorder_;
  WorkRecord record_;
};

}  // namespace trainer::backend
