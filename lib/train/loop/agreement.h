// The agreement of all ranks on what follows a step.
#pragma once

#include <span>
#include <vector>

#include "engine/step_times.h"
#include "hooks/hooks.h"
#include "train/process_group.h"
#include "train/schedule/step_summary.h"

namespace trainer::train {

// Combines the shares of all ranks. A signal counts on any rank; clock and hooks count on the
// chief.
class Agreement {
 public:
  // `group` must outlive it.
  explicit Agreement(ProcessGroup& group) : group_(group) {}

  // Returns the summary of all ranks on the step that was read last, the same on all of them.
  // `times` has one entry per rank. The caller fills in the entries of this process; the call fills
  // in all others.
  // Collective.
  StepSummary agree(StepSummary share, std::span<engine::RankTimes> times);
  // Records the request of the hooks after a step and returns the request that is due at once. A
  // group of one returns `request`. Several ranks return kContinue, because only the chief has
  // hooks: the next agree() sends its request to all ranks.
  hooks::Request submit(hooks::Request request);

 private:
  ProcessGroup& group_;
  std::vector<double> exchanged_;  // a summary, then the times of every rank
  hooks::Request pending_ = hooks::Request::kContinue;
};

}  // namespace trainer::train
