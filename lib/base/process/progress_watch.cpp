#include "base/process/progress_watch.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/output_buffer.h"

namespace trainer {
namespace {

using std::chrono::milliseconds;

// Returns what a user may do about a stall in this activity; "" if nothing is known.
const char* find_hint(Activity activity) {
  switch (activity) {
    case Activity::kPrepareGpu:
    case Activity::kGpu:
      return "if it repeats, try TRAINER_CUDA_GRAPHS=0, with several GPUs also "
             "NCCL_P2P_DISABLE=1 and NCCL_DEBUG=INFO, and look for Xid messages in dmesg";
    case Activity::kSum:
    case Activity::kBarrier:
      return "check the network between the hosts and the other processes";
    case Activity::kOpenData:
    case Activity::kSave:
    case Activity::kInput:
      return "check the storage";
    case Activity::kCompile:
    case Activity::kEvaluate:
    case Activity::kCompute:
    case Activity::kCount:
      return "";
  }
  return "";
}

std::vector<Activity> list_open(const Progress& progress) {
  std::vector<Activity> open;
  for (int i = 0; i < static_cast<int>(Activity::kCount); ++i) {
    const auto activity = static_cast<Activity>(i);
    if (progress.is_open(activity)) open.push_back(activity);
  }
  return open;
}

// Returns "evaluates and waits for the GPU".
std::string join_texts(const std::vector<Activity>& open) {
  std::string text;
  for (const Activity activity : open) {
    text += concat(text.empty() ? "" : " and ", to_text(activity));
  }
  return text;
}

double to_seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

std::string describe_stall(const std::vector<Activity>& open, milliseconds time) {
  const std::string text =
      concat("has made no progress for ", to_seconds(time), " s: it ", join_texts(open));
  // The last activity is the most specific one.
  const std::string hint = find_hint(open.back());
  return hint.empty() ? text : concat(text, "; ", hint);
}

// Set by SIGQUIT, and reset by the watch that answers.
std::atomic<bool> is_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void ask(int) { is_asked = true; }

[[noreturn]] void end_process(const std::string& message) {
  write_without_wait(STDERR_FILENO, message);
  ::_exit(kExitDevice);
}

}  // namespace

const char* to_text(Activity activity) {
  switch (activity) {
    case Activity::kOpenData:
      return "opens the data";
    case Activity::kCompile:
      return "compiles the model";
    case Activity::kPrepareGpu:
      return "prepares the GPU";
    case Activity::kEvaluate:
      return "evaluates";
    case Activity::kSave:
      return "saves a checkpoint";
    case Activity::kInput:
      return "waits for input";
    case Activity::kCompute:
      return "computes on the CPU";
    case Activity::kGpu:
      return "waits for the GPU";
    case Activity::kSum:
      return "waits for other processes in a sum";
    case Activity::kBarrier:
      return "waits for other processes";
    case Activity::kCount:
      break;
  }
  return "";
}

StallDetector::StallDetector(Progress progress, milliseconds timeout)
    : progress_(std::move(progress)),
      timeout_(timeout),
      interval_(std::clamp(timeout / 20, milliseconds(10), milliseconds(1000))),
      next_report_(timeout) {}

bool StallDetector::waits_for_process() const {
  return progress_.is_open(Activity::kSum) || progress_.is_open(Activity::kBarrier);
}

bool StallDetector::has_reached_limit() const {
  if (progress_.is_open(Activity::kPrepareGpu)) return quiet_ >= 10 * timeout_;
  return (progress_.is_open(Activity::kGpu) || waits_for_process()) && quiet_ >= 2 * timeout_;
}

std::optional<Stall> StallDetector::look(Clock::time_point now) {
  const Clock::duration passed = last_look_ ? now - *last_look_ : Clock::duration(0);
  last_look_ = now;
  const std::uint64_t count = progress_.count();
  const std::vector<Activity> open = list_open(progress_);
  const bool has_advanced = std::exchange(count_, count) != count;
  if (has_advanced || !last_progress_) last_progress_ = now;
  if (has_advanced || open.empty()) {
    quiet_ = Clock::duration(0);
    next_report_ = timeout_;
    progress_.set_stalled_for(milliseconds(0));
    return std::nullopt;
  }
  quiet_ += std::min<Clock::duration>(passed, 2 * interval_);
  progress_.set_stalled_for(std::chrono::duration_cast<milliseconds>(quiet_));
  const bool is_final = has_reached_limit();
  if (!is_final && (quiet_ < next_report_ || waits_for_process())) return std::nullopt;
  next_report_ = 2 * quiet_;
  const auto time = std::chrono::duration_cast<milliseconds>(quiet_);
  return Stall{time, is_final, describe_stall(open, time)};
}

std::string StallDetector::describe(Clock::time_point now) const {
  const std::vector<Activity> open = list_open(progress_);
  const auto time = std::chrono::duration_cast<milliseconds>(now - last_progress_.value_or(now));
  return concat(open.empty() ? "works outside of the watched activities" : join_texts(open),
                "; its last progress was ", to_seconds(time), " s ago");
}

ProgressWatch::ProgressWatch(const Progress& progress, ProgressWatchOptions options)
    : detector_(progress, options.timeout), options_(std::move(options)) {
  is_asked = false;
  struct sigaction action {};
  action.sa_handler = ask;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGQUIT, &action, &previous_);
  thread_ = std::thread([this] { run(); });
}

ProgressWatch::~ProgressWatch() {
  ::sigaction(SIGQUIT, &previous_, nullptr);
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void ProgressWatch::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, detector_.interval(), [this] { return is_over_; })) {
    const auto now = StallDetector::Clock::now();
    const std::optional<Stall> stall = detector_.look(now);
    if (is_asked.exchange(false)) {
      write_without_wait(STDERR_FILENO,
                         concat("SIGQUIT: ", options_.process, " ", detector_.describe(now), "\n"));
    }
    if (!stall) continue;
    if (!stall->is_final) {
      options_.warn(concat(options_.process, " ", stall->text));
      continue;
    }
    end_process(concat("error: ", options_.process, " ", stall->text,
                       ". It ends here, because nothing else ends such a wait; continue from the "
                       "last checkpoint with --resume. parallel.timeout sets the limit\n"));
  }
}

}  // namespace trainer
