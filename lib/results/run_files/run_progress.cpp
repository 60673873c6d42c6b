#include "results/run_files/run_progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/lock.h"

namespace trainer::results {
namespace {

using checkpoint::HolderState;

// Sets the newest metrics of each split.
void read_metrics(const RunFiles& run, RunProgress& progress) {
  progress.metrics.clear();
  for (const Split split : kSplits) {
    const auto row = std::find_if(run.metrics.rbegin(), run.metrics.rend(),
                                  [&](const MetricsRow& each) { return each.split == split; });
    if (row == run.metrics.rend()) continue;
    progress.metrics.push_back({to_string(split), {row->step, row->loss, row->accuracy}});
  }
}

// Sets the speed to that of the newest rows of the ledger, and returns the steps per second. Sets
// and returns nothing if the rows give no time.
std::optional<double> read_ledger_speed(const std::vector<LedgerRow>& rows, RunProgress& progress) {
  constexpr std::ptrdiff_t kMaxRows = 50;
  if (rows.size() < 2) return std::nullopt;
  // A row stands for the steps since the row before.
  const auto first = rows.end() - std::min(std::ssize(rows) - 1, kMaxRows);
  double seconds = 0, waited = 0, samples = 0;
  for (auto row = first; row != rows.end(); ++row) {
    seconds += row->seconds;
    waited += row->wait_seconds;
    samples += static_cast<double>(row->samples);
  }
  if (seconds <= 0) return std::nullopt;
  progress.images_per_second = samples / seconds;
  progress.wait_share = std::min(waited / seconds, 1.0);
  return static_cast<double>(rows.back().step - std::prev(first)->step) / seconds;
}

// Sets the step, the speed and the time to the end.
void read_steps(const RunFiles& run, RunProgress& progress) {
  progress.step = run.sessions.empty() ? 0 : run.sessions.back().first_step;
  double steps_per_second = 0;
  for (const MetricsRow& row : run.metrics) {
    progress.step = std::max(progress.step, row.step);
    if (row.split != Split::kTrain) continue;
    progress.images_per_second = row.images_per_second;
    progress.wait_share = row.wait_share;
    steps_per_second = row.steps_per_second;
  }
  if (run.ledger.size() > 1) progress.step = std::max(progress.step, run.ledger.back().step);
  steps_per_second = read_ledger_speed(run.ledger, progress).value_or(steps_per_second);
  if (run.finished) {
    progress.step = run.finished->steps;
    if (const auto speed = run.finished->images_per_second) progress.images_per_second = *speed;
  }
  const auto left = static_cast<double>(progress.total_steps - progress.step);
  const bool has_eta = progress.state == RunState::kRunning && steps_per_second > 0 && left >= 0;
  progress.seconds_left = has_eta ? std::optional(left / steps_per_second) : std::nullopt;
}

// Returns a warning if nothing was written for minutes, and for three times as long as the newest
// row took, although a process trains.
std::string find_silence(const Path& folder, const RunFiles& run, HolderState holder) {
  using Clock = std::filesystem::file_time_type::clock;
  std::optional<std::filesystem::file_time_type> newest;
  for (const char* name : {"lock", kRunRecordFile, "metrics.csv", "ledger.csv"}) {
    std::error_code error;
    const auto written = std::filesystem::last_write_time(folder / name, error);
    if (!error && (!newest || written > *newest)) newest = written;
  }
  if (!newest) return "";
  const std::chrono::duration<double> silence = Clock::now() - *newest;
  const double row_seconds = run.ledger.empty() ? 0 : run.ledger.back().seconds;
  // Whole minutes, so that the warning changes with them only.
  const auto minutes = static_cast<std::int64_t>(silence.count() / 60);
  if (minutes < 1 || silence.count() < 3 * row_seconds) return "";
  return concat("nothing was written for ", counted(minutes, "minute"),
                holder == HolderState::kOtherHost
                    ? "; the process is on another machine, so that its end cannot be seen here"
                    : "");
}

void add_warnings(const Path& folder, HolderState holder, WatchedRun& watched) {
  RunProgress& progress = watched.progress;
  progress.warnings.clear();
  for (const Notice& notice : watched.files.data_notices) {
    if (notice.kind == Notice::Kind::kWarning) progress.warnings.push_back(notice.text);
  }
  for (const RunWarning& warning : watched.files.warnings) {
    progress.warnings.push_back(warning.text);
  }
  if (progress.straggler) {
    progress.warnings.push_back(
        concat("rank ", *progress.straggler, " is slow: the other ranks wait for it"));
  }
  const std::string silence =
      is_over(progress.state) ? "" : find_silence(folder, watched.files, holder);
  if (!silence.empty()) progress.warnings.push_back(silence);
}

// Sets the state of a run whose files show whether it has ended.
void find_state(const RunFiles& run, HolderState holder, bool is_held, RunProgress& progress) {
  using enum RunState;
  if (is_held) {
    progress.state = kRunning;
  } else if (run.finished) {
    progress.state = kFinished;
    progress.reason = run.finished->reason;
  } else if (holder == HolderState::kGone) {
    progress.state = kKilled;
    progress.reason =
        "its process has ended without a last save; --resume goes on from the newest "
        "checkpoint";
  } else {
    progress.state = kStopped;
    progress.reason = "a signal or an error has ended it before its last step; --resume goes on";
  }
}

void find_state_without_record(const Path& folder, HolderState holder, bool is_held,
                               RunProgress& progress) {
  using enum RunState;
  progress.state = is_held ? kStarting : holder == HolderState::kGone ? kKilled : kWaiting;
  progress.reason = is_held                     ? "its process has written no metrics yet"
                    : progress.state == kKilled ? "its process has ended before the first step"
                    : path_exists(folder)       ? "the folder has no files of a run yet"
                                                : "there is no such folder yet";
}

}  // namespace

bool is_over(RunState state) {
  using enum RunState;
  return state != kWaiting && state != kStarting && state != kRunning;
}

void look_at_run(const Path& folder, WatchedRun& watched) {
  // The lock is read before the files: a run that ends in between still looks as if it trained, and
  // one that has ended has written all files.
  const HolderState holder = checkpoint::find_holder_state(folder);
  const bool is_held = holder != HolderState::kNone && holder != HolderState::kGone;
  RunProgress progress;
  progress.folder = folder;
  try {
    if (!path_exists(folder / kRunRecordFile)) {
      watched.files = {};
      find_state_without_record(folder, holder, is_held, progress);
    } else {
      watched.files = read_run(folder, LedgerRows::kNewest);
      const RunFiles& run = watched.files;
      progress.total_steps = run.total_steps;
      progress.replicas = run.replicas;
      progress.straggler = run.straggler;
      progress.best = run.best;
      find_state(run, holder, is_held, progress);
      read_metrics(run, progress);
      read_steps(run, progress);
      if (run.steps_per_epoch > 0) {
        const auto per_epoch = static_cast<double>(run.steps_per_epoch);
        progress.epoch = static_cast<double>(progress.step) / per_epoch;
        progress.epochs = static_cast<double>(progress.total_steps) / per_epoch;
      }
    }
    watched.progress = progress;
    add_warnings(folder, holder, watched);
  } catch (const std::runtime_error& error) {
    watched.progress.folder = folder;
    watched.progress.state = is_held ? RunState::kRunning : RunState::kDamaged;
    watched.progress.reason = is_held ? "" : error.what();
    watched.progress.warnings.clear();
    if (is_held) watched.progress.warnings.push_back(concat("cannot read: ", error.what()));
  }
}

void fields(FieldVisitor& v, SplitProgress& split) {
  v("step", split.step, kSteps, "Steps done.");
  v("loss", split.loss, "Mean loss of the samples.");
  v("accuracy", split.accuracy, kShare, "Samples whose class is predicted right.");
}

void fields(FieldVisitor& v, RunProgress& progress) {
  v.event("progress");
  v("folder", progress.folder, "The run folder.");
  v("state", progress.state, "Whether the run goes on, or how it ended.");
  v.when_present("reason", progress.reason, "What explains the state.");
  v("step", progress.step, kSteps, "Steps done.");
  v("total_steps", progress.total_steps, kSteps, "Steps that the config asks for.");
  v("epoch", progress.epoch, "epochs", "Epochs done.");
  v.when_present("seconds_left", progress.seconds_left, kSeconds,
                 "Time to the last step at the present speed, without evaluations.");
  v("images_per_second", progress.images_per_second, kImagesPerSecond,
    "Throughput of the newest steps; of a finished run, of all steps.");
  v("wait_share", progress.wait_share, kShare, "The share of their time that waited for data.");
  v("replicas", progress.replicas, "replicas", "Replicas of all workers.");
  v.when_present("straggler", progress.straggler, "The rank that the others wait for.");
  v("metrics", progress.metrics, "The newest metrics by split.");
  v.when_present("best", progress.best, "The best checkpoint.");
  v("warnings", progress.warnings, "Warnings, the newest last.");
}

}  // namespace trainer::results
