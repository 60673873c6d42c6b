// The signs of progress of a process, and the thread that reports when there are none.
// Reasons: lib/decisions/base.md#a-thread-that-only-reads-counters-watches-for-progress.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace trainer {

// What a process does. Several activities are open at once: an evaluation waits for a GPU.
enum class Activity {
  kOpenData,
  kCompile,
  kPrepareGpu,
  kEvaluate,
  kSave,
  kInput,
  kCompute,
  kGpu,
  kSum,
  kBarrier,
  kCount
};
// Returns the end of "the process ...": "waits for the GPU".
const char* to_text(Activity activity);

// The progress of a process, which all copies share. Thread-safe: a call takes a few nanoseconds
// and no lock.
class Progress {
 public:
  Progress() : state_(std::make_shared<State>()) {}

  // Call it after a piece of work that takes much less than a minute: a file, a layer, a step.
  void advance() const { state_->count.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t count() const { return state_->count.load(std::memory_order_relaxed); }
  bool is_open(Activity activity) const { return scopes(activity).load() > 0; }

 private:
  friend class ActivityScope;
  struct State {
    std::atomic<std::uint64_t> count{0};
    std::array<std::atomic<int>, static_cast<std::size_t>(Activity::kCount)> scopes{};
  };
  std::atomic<int>& scopes(Activity activity) const {
    return state_->scopes[static_cast<std::size_t>(activity)];
  }

  std::shared_ptr<State> state_;
};

// Opens an activity for its lifetime. Its begin and its end count as progress.
class ActivityScope {
 public:
  ActivityScope(Progress progress, Activity activity)
      : progress_(std::move(progress)), activity_(activity) {
    progress_.scopes(activity_).fetch_add(1);
    progress_.advance();
  }
  ~ActivityScope() {
    progress_.scopes(activity_).fetch_sub(1);
    progress_.advance();
  }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  Progress progress_;
  Activity activity_;
};

// A time without progress that is to be reported.
struct Stall {
  std::chrono::milliseconds time{};
  bool is_final = false;  // the process is to end
  std::string text;       // "has made no progress for 60 s: it waits for the GPU; ..."
};

// Finds stalls from regular looks at a progress. A look counts at most twice the time between two
// looks, so that a time in which the process was stopped does not count.
class StallDetector {
 public:
  using Clock = std::chrono::steady_clock;
  // `timeout` is parallel.timeout.
  StallDetector(Progress progress, std::chrono::milliseconds timeout);

  // The time between two looks.
  std::chrono::milliseconds interval() const { return interval_; }
  // Returns a stall after `timeout` without progress, and after each doubling of this time. It is
  // final once a GPU or another process has been waited for, for twice `timeout`, or for ten times
  // while the GPU is prepared.
  std::optional<Stall> look(Clock::time_point now);

 private:
  bool has_reached_limit() const;

  Progress progress_;
  std::chrono::milliseconds timeout_, interval_;
  std::uint64_t count_ = 0;
  std::optional<Clock::time_point> last_look_;
  Clock::duration quiet_{0}, next_report_;
};

struct ProgressWatchOptions {
  std::chrono::milliseconds timeout{};
  std::string process = "this process";  // or "rank 2", for messages
  // Receives the text of a stall that is not final, from another thread.
  std::function<void(const std::string&)> warn;
};

// A thread that looks for stalls of the process during its lifetime. It takes no lock of other
// code and makes no call that a driver could block. A final stall ends the process at once with
// kExitDevice, because a thread that hangs in a driver cannot be ended otherwise.
class ProgressWatch {
 public:
  ProgressWatch(const Progress& progress, ProgressWatchOptions options);
  ~ProgressWatch();
  ProgressWatch(const ProgressWatch&) = delete;
  ProgressWatch& operator=(const ProgressWatch&) = delete;

 private:
  void run();

  StallDetector detector_;
  ProgressWatchOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace trainer
