#include "train/loop/restore_best.h"

namespace trainer::train {

bool needs_restore(const RunContext& context) {
  const auto& stop = context.job.config.train.early_stop;
  return stop && stop->restore_best && context.state.restored_step == 0;
}

void restore_best(RunContext& context, Checkpointer& checkpointer, Evaluator& evaluator,
                  StageControl& stages) {
  const RunState& state = context.state;
  if (!needs_restore(context)) return;
  if (!evaluator.has_evaluated(state.step)) evaluator.evaluate_between();
  if (state.evaluation_due) return;
  const bool other_stage =
      stages.stages().after(state.best_step) != stages.stages().after(state.step);
  stages.check();
  if (!checkpointer.restore_best()) return;
  evaluator.forget_last();
  if (other_stage) stages.begin();
}

}  // namespace trainer::train
