#include "train/loop/not_finite.h"

#include "base/error.h"
#include "train/loop/run_context.h"

namespace trainer::train {

void throw_not_finite(const std::string& what, const std::string& last_checkpoint) {
  throw CheckError(concat(
      what, ". Last good checkpoint: ", last_checkpoint,
      ". Try a lower learning rate, a warm-up or optimizer.global_clip_norm, then --resume."));
}

std::string describe(const NotFinite& found, const RunContext& context) {
  const std::int64_t step = context.state.step;
  return concat("the loss is not finite at step ", step + 1, " (epoch ",
                static_cast<std::int64_t>(context.job.plan.epoch(step)) + 1, ", learning rate ",
                found.learning_rate, ")", found.where.empty() ? "" : ": first seen in ",
                found.where, ", ", found.blame, ". The parameters were not updated");
}

}  // namespace trainer::train
