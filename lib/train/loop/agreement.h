// The agreement of all ranks on what follows a step.
#pragma once

#include <span>
#include <vector>

#include "engine/step_times.h"
#include "hooks/hooks.h"
#include "train/process_group.h"
#include "train/schedule/step_verdict.h"

namespace trainer::train {

// A signal of any rank counts, and the clock and the hooks of the chief.
class Agreement {
 public:
  // `group` must outlive it.
  explicit Agreement(ProcessGroup& group) : group_(group) {}

  // Returns the verdict of all ranks on the step that was read last, the same on all of them.
  // `times` has an entry per rank, of which this process's are filled in; on return all are.
  // Collective.
  StepVerdict agree(StepVerdict own, std::span<engine::RankTimes> times);
  // Takes what the hooks ask for after a step, and returns what of it is due at once. With several
  // ranks that is nothing: only the chief has hooks, and the request goes out with the next
  // agree().
  hooks::Request submit(hooks::Request request);

 private:
  ProcessGroup& group_;
  std::vector<double> exchanged_;  // a verdict, then the times of every rank
  hooks::Request pending_ = hooks::Request::kContinue;
};

}  // namespace trainer::train
