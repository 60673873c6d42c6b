// Measures the times of a run's steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/phase_times.h"
#include "engine/step_times.h"
#include "hooks/hooks.h"
#include "train/loop/clock.h"

namespace trainer::train {

// Measures each step as a whole and by phase and rank, and sums the steps up. All times are
// seconds. Per step: start_step(), set_own(), end_step(); several steps may be in flight.
class StepClock {
 public:
  // `clock` must outlive this object.
  explicit StepClock(const Clock& clock) : clock_(clock) {}

  // Sets the number of ranks whose times are given; 0 on a rank that does not receive them.
  void set_ranks(std::size_t count) { ranks_.resize(count); }
  void start_step() { start_ = clock_(); }
  // Call it when a new feed counts the seconds waited from 0.
  void reset_wait() { waited_ = 0; }

  // Sets the times of this process's ranks until now: one of `devices` per rank, from `first_rank`
  // on. `seconds_waited` is the time for which steps have waited for the feed since reset_wait().
  void set_own(std::size_t first_rank, std::span<const backend::PhaseTimes> devices,
               double seconds_waited);
  // The times of all ranks. The processes exchange theirs between set_own() and end_step().
  std::span<engine::RankTimes> ranks() { return ranks_; }
  // Sets the times of `record`, whose ranks are valid until the next set_own(). If `together`,
  // all ranks end the step at once, and the time that a rank has not used is its wait for the
  // others.
  void end_step(hooks::StepRecord& record, bool together);

  std::int64_t samples() const { return samples_; }  // the samples of all ranks and steps
  // Sets the sums over all steps.
  void describe(hooks::Finish& finish) const;

 private:
  const Clock& clock_;
  double start_ = 0;
  double waited_ = 0;        // the wait up to the newest step
  double wait_seconds_ = 0;  // the wait in the newest step
  double total_seconds_ = 0;
  std::int64_t samples_ = 0;
  std::vector<engine::RankTimes> ranks_;  // the times in the newest step
  engine::StepTimes times_;
};

}  // namespace trainer::train
