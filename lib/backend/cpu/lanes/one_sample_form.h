// Chooses the threads of calls of one sample: all, or the calling thread alone.
// Reasons: lib/decisions/backend.md#short-calls-run-in-one-lane.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

namespace trainer::backend::cpu {

// Readings of the clocks of a thread, or their differences.
struct ThreadTimes {
  double seconds = 0;            // by the wall clock
  double cpu_seconds = 0;        // while the thread ran
  std::int64_t preemptions = 0;  // how often the system took the core from the thread

  // Returns whether other threads had the core for more than a tenth of the time.
  bool is_disturbed() const { return preemptions > 0 && cpu_seconds < 0.9 * seconds; }
};

using ReadThreadTimes = std::function<ThreadTimes()>;

// Reads the clocks of the calling thread.
ThreadTimes read_thread_times();
ThreadTimes operator-(const ThreadTimes& end, const ThreadTimes& begin);

// All threads wait for each other in each layer, so that a call takes many times as long if other
// programs have one of their cores. One sample has the same bits in both forms; only therefore may
// their times decide.
//
// Calls run on all threads until the calling thread is disturbed in a call that takes longer than
// the last one on one thread. They then run on one thread until it has computed undisturbed for
// four times as long as the disturbed call took, or is slower than that call was. Trials of all
// threads on busy cores therefore take at most a fifth of the time.
class OneSampleForm {
 public:
  enum class Form { kAllThreads, kOneThread };

  OneSampleForm() = default;
  // `before`: the times of work on the calling thread that came before the first call.
  explicit OneSampleForm(const ThreadTimes& before)
      : form_(before.is_disturbed() ? Form::kOneThread : Form::kAllThreads) {}

  // The form of the next call.
  Form form() const { return form_; }
  // Records the times of a call in this form.
  void record(const ThreadTimes& call);

 private:
  Form form_ = Form::kAllThreads;
  double all_threads_ = std::numeric_limits<double>::infinity();  // seconds: of the disturbed call
  double one_thread_ = 0;                                         // seconds: of the last call
  double quiet_needed_ = 0;  // seconds on one thread until all threads are tried again
  double quiet_ = 0;         // seconds on one thread since it was disturbed
};

}  // namespace trainer::backend::cpu
