// The thread that reports when a process makes no progress.
// Reasons: lib/decisions/base.md#a-thread-that-only-reads-counters-watches-for-progress.
#pragma once

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/process/progress.h"

namespace trainer {

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
  // while the GPU is prepared. A wait for another process is returned only if it is final: the call
  // that waits names the process that is late, after `timeout`.
  std::optional<Stall> look(Clock::time_point now);
  // Returns what the process does and how long ago the last look with progress was: "computes on
  // the CPU and waits for input; its last progress was 0.3 s ago".
  std::string describe(Clock::time_point now) const;

 private:
  bool waits_for_process() const;
  bool has_reached_limit() const;

  Progress progress_;
  std::chrono::milliseconds timeout_, interval_;
  std::uint64_t count_ = 0;
  std::optional<Clock::time_point> last_look_, last_progress_;
  Clock::duration quiet_{0}, next_report_;
};

struct ProgressWatchOptions {
  std::chrono::milliseconds timeout{};
  std::string process = "this process";  // or "rank 2", for messages
  // Receives the text of a stall that is not final, from another thread.
  std::function<void(const std::string&)> warn;
};

// A thread that looks for stalls of the process during its lifetime. But for `warn` it takes no
// lock of other code, and it makes no call that a driver could block. A final stall ends the
// process at once with kExitDevice, because a thread that hangs in a driver cannot be ended
// otherwise. SIGQUIT makes it print what the process does on standard error, within a second; the
// process goes on.
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
  struct sigaction previous_ {};
  std::thread thread_;
};

}  // namespace trainer
