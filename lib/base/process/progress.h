// The signs of progress of a process, which ProgressWatch (progress_watch.h) looks at.
// Reasons: lib/decisions/base.md#a-thread-that-only-reads-counters-watches-for-progress.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
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
  // The time without progress in an open activity, as of the last look of ProgressWatch; 0 without
  // one.
  std::chrono::milliseconds stalled_for() const {
    return std::chrono::milliseconds(state_->stalled_ms.load(std::memory_order_relaxed));
  }
  void set_stalled_for(std::chrono::milliseconds time) const { state_->stalled_ms = time.count(); }

 private:
  friend class ActivityScope;
  struct State {
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::int64_t> stalled_ms{0};
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

}  // namespace trainer
