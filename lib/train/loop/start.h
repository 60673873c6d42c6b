// What a run starts from, and what it is announced as.
#pragma once

#include <string>

#include "hooks/hooks.h"

namespace trainer::train {

class Checkpointer;
class StageControl;
struct RunContext;

// The chief's: state and variables of the newest checkpoint, where there is one. Throws DataError
// when the run would not go on as it was.
void resume(RunContext& context, Checkpointer& checkpointer, StageControl& stages);

// The chief's: the variables of the config's weight file. Returns what came of it in a line; ""
// when there is none.
std::string import_weights(RunContext& context);

// Gives all ranks the state and the variables of the chief. Collective.
void copy_from_chief(RunContext& context, StageControl& stages);

// Returns the facts for Hook::on_start(). `weights` is the result of import_weights(). Collective.
hooks::RunInfo run_info(const RunContext& context, const std::string& weights);

// Warns when batch norm takes its statistics over few samples.
void warn_of_small_batches(const RunContext& context);

}  // namespace trainer::train
