#include "train/session/restore_best.h"

namespace trainer::train {

void restore_best(Session& session, Checkpointer& checkpointer, Evaluator& evaluator,
                  StageControl& stages) {
  const RunState& state = session.state;
  const auto& stop = session.job.config.train.early_stop;
  if (!stop || !stop->restore_best || state.restored_step > 0) return;
  if (!evaluator.has_evaluated(state.step)) evaluator.evaluate_between();
  if (state.evaluation_due) return;
  const bool other_stage =
      stages.stages().after(state.best_step) != stages.stages().after(state.step);
  stages.check();
  if (!checkpointer.restore_best()) return;
  evaluator.forget_last();
  if (!other_stage) return;
  session.job.strategy.close_feed();
  stages.begin();
}

}  // namespace trainer::train
