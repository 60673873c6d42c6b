#include "backend/cpu/lanes/one_sample_form.h"

#include <sys/resource.h>

#include <chrono>

namespace trainer::backend::cpu {

ThreadTimes read_thread_times() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto to_seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return {now.count(), to_seconds(usage.ru_utime) + to_seconds(usage.ru_stime), usage.ru_nivcsw};
}

ThreadTimes operator-(const ThreadTimes& end, const ThreadTimes& begin) {
  return {end.seconds - begin.seconds, end.cpu_seconds - begin.cpu_seconds,
          end.preemptions - begin.preemptions};
}

void OneSampleForm::record(const ThreadTimes& call) {
  constexpr double kQuietTimes = 4;
  const bool is_disturbed = call.is_disturbed();
  if (form_ == Form::kOneThread) {
    one_thread_ = call.seconds;
    quiet_ = is_disturbed ? 0 : quiet_ + call.seconds;
    if (quiet_ > quiet_needed_ || call.seconds > all_threads_) form_ = Form::kAllThreads;
  } else if (is_disturbed && call.seconds > one_thread_) {
    all_threads_ = call.seconds;
    quiet_needed_ = kQuietTimes * call.seconds;
    quiet_ = 0;
    form_ = Form::kOneThread;
  }
}

}  // namespace trainer::backend::cpu
