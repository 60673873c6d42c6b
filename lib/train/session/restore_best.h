// train.early_stop.restore_best: the end of a run with the parameters of its best evaluation.
#pragma once

#include "train/session/checkpointer.h"
#include "train/session/evaluator.h"
#include "train/session/session.h"
#include "train/session/stage_control.h"

namespace trainer::train {

// Restores the best parameters after the last step, if the config asks for them and the last step,
// which is evaluated first, is not the best. Frozen variables and kept features become those of the
// stage in which the best evaluation was. Collective; no feed is read afterwards.
void restore_best(Session& session, Checkpointer& checkpointer, Evaluator& evaluator,
                  StageControl& stages);

}  // namespace trainer::train
