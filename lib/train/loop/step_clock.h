// The times of a run's steps.
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

  // The number of ranks whose times are known; 0 where only the chief knows them.
  void set_ranks(std::size_t count) { ranks_.resize(count); }
  void start_step() { start_ = clock_(); }
  // The feed that counts the seconds waited begins again at 0.
  void reset_wait() { waited_ = 0; }

  // The times of this process's ranks until now: one of `devices` a rank, from `first_rank` on.
  // `seconds_waited` is how long the feed has kept steps waiting since reset_wait().
  void set_own(std::size_t first_rank, std::span<const backend::PhaseTimes> devices,
               double seconds_waited);
  // Of all ranks; the processes exchange theirs between set_own() and end_step().
  std::span<engine::RankTimes> ranks() { return ranks_; }
  // Sets the times of `progress`; its ranks are valid until the next set_own(). Where ranks end a
  // step together, what a rank has not used of the step is its wait for others.
  void end_step(hooks::Progress& progress, bool together);

  std::int64_t samples() const { return samples_; }  // of all ranks and steps
  // Sets the sums over all steps.
  void describe(hooks::Finish& finish) const;

 private:
  const Clock& clock_;
  double start_ = 0;
  double waited_ = 0;        // until the newest step
  double wait_seconds_ = 0;  // in the newest step
  double total_seconds_ = 0;
  std::int64_t samples_ = 0;
  std::vector<engine::RankTimes> ranks_;  // of the newest step
  engine::StepTimes times_;
};

}  // namespace trainer::train
