#include "train/loop/not_finite.h"

#include "base/error.h"
#include "train/loop/run_context.h"

namespace trainer::train {

void throw_not_finite(const std::string& what, const std::string& last_checkpoint) {
  throw CheckError(
      what, ". Last good checkpoint: ", last_checkpoint,
      ". Try a lower learning rate, a warm-up or optimizer.global_clip_norm, then --resume.");
}

void throw_not_finite(const NotFinite& found, const RunContext& context,
                      const std::string& last_checkpoint) {
  const std::int64_t step = context.state.step;
  const std::string when = concat("step ", step + 1, " (epoch ",
                                  static_cast<std::int64_t>(context.job.plan.epoch(step)) + 1,
                                  ", learning rate ", found.learning_rate, ")");
  const std::string seen = found.where.empty() ? "" : concat(": first seen in ", found.where);
  if (found.found == NotFinite::Found::kLoss) {
    throw_not_finite(concat("the loss is not finite at ", when, seen, ", ", found.blame,
                            ". The parameters were not updated"),
                     last_checkpoint);
  }
  const std::string what =
      concat("the update is not finite at ", when, ", although the loss is finite", seen);
  if (found.data.empty()) throw_not_finite(what, last_checkpoint);
  throw Error(kExitData, what, ". The cause is in the data: ", found.data,
              ". Last good checkpoint: ", last_checkpoint, ". Correct the sample, then --resume.");
}

}  // namespace trainer::train
