#include "train/loop/step_clock.h"

#include <algorithm>

namespace trainer::train {

void StepClock::set_own(std::size_t first_rank, std::span<const backend::PhaseTimes> devices,
                        double seconds_waited) {
  wait_seconds_ = seconds_waited - waited_;
  waited_ = seconds_waited;
  const double step_seconds = clock_() - start_;
  std::ranges::fill(ranks_, engine::RankTimes());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    ranks_.at(first_rank + i) = engine::rank_times(step_seconds, wait_seconds_, devices[i]);
  }
}

void StepClock::end_step(hooks::StepRecord& record, bool together) {
  record.wait_seconds = wait_seconds_;
  record.step_seconds = clock_() - start_;
  if (together) {
    for (engine::RankTimes& rank : ranks_) {
      rank[engine::StepPhase::kAllReduce] += std::max(0.0, record.step_seconds - rank.total());
    }
  }
  record.ranks = ranks_;
  times_.add(ranks_);
  total_seconds_ += record.step_seconds;
  samples_ += record.samples;
}

void StepClock::describe(hooks::Finish& finish) const {
  finish.step_seconds = total_seconds_;
  finish.times = times_;
  if (total_seconds_ > 0) {
    finish.images_per_second = static_cast<double>(samples_) / total_seconds_;
  }
}

}  // namespace trainer::train
