// Implements train.early_stop.restore_best: a run ends with the parameters of its best evaluation.
#pragma once

#include "train/loop/checkpointer.h"
#include "train/loop/evaluator.h"
#include "train/loop/run_context.h"
#include "train/loop/stage_control.h"

namespace trainer::train {

// Returns whether the config asks for the best parameters and they have not been restored.
bool needs_restore(const RunContext& context);
// Restores the best parameters after the last step, if the config asks for them and the last step,
// which is evaluated first, is not the best. Frozen variables and kept features become those of the
// stage in which the best evaluation was. The training data must be closed. Collective.
void restore_best(RunContext& context, Checkpointer& checkpointer, Evaluator& evaluator,
                  StageControl& stages);

}  // namespace trainer::train
