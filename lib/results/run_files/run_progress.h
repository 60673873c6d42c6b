// How far a run is, as its files show it to another process, perhaps on another machine.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "base/spelling.h"
#include "results/field.h"
#include "results/metrics.h"
#include "results/run_files/run_files.h"

namespace trainer::results {

enum class RunState {
  kWaiting,   // no process has begun the run yet
  kStarting,  // a process opens the data or builds the model
  kRunning,
  kFinished,  // the run has ended by itself
  kStopped,   // a signal or an error has ended it before its last step
  kKilled,    // its process has ended without closing the run
  kDamaged,   // its files cannot be read, and nobody writes them
};
constexpr auto spellings(RunState) {
  using enum RunState;
  return std::to_array<Spelling<RunState>>({{kWaiting, "waiting"},
                                            {kStarting, "starting"},
                                            {kRunning, "running"},
                                            {kFinished, "finished"},
                                            {kStopped, "stopped"},
                                            {kKilled, "killed"},
                                            {kDamaged, "damaged"}});
}

// The newest row of a split.
struct SplitProgress {
  std::int64_t step = 0;
  double loss = MetricMeans::kNone, accuracy = MetricMeans::kNone;
};
void fields(FieldVisitor& v, SplitProgress& split);

struct RunProgress {
  Path folder;
  RunState state = RunState::kWaiting;
  std::string reason;  // explains the state; "" while the run trains
  std::int64_t step = 0, total_steps = 0;
  double epoch = 0, epochs = 0;
  std::optional<double> seconds_left;  // set while the run trains, after its second step
  double images_per_second = MetricMeans::kNone, wait_share = MetricMeans::kNone;
  std::int64_t replicas = 0;
  std::optional<std::int64_t> straggler;                       // the rank that the others wait for
  std::vector<std::pair<std::string, SplitProgress>> metrics;  // by split
  std::optional<BestCheckpoint> best;
  std::vector<std::string> warnings;  // the newest last
};
// A line of `watch --json`.
void fields(FieldVisitor& v, RunProgress& progress);

// Returns whether nobody trains the run, so that its files stay as they are.
bool is_over(RunState state);

// The files of a run that one look has read; empty before a run has any.
struct WatchedRun {
  RunProgress progress;
  RunFiles files;  // with the newest rows of the ledger
};
// Reads the run in `folder`, which may not exist yet. `watched` has the result of the look before:
// if a file is half written or cannot be read while a process trains, it stays as it is and gets a
// warning.
void look_at_run(const Path& folder, WatchedRun& watched);

}  // namespace trainer::results
