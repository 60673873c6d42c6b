// Sets the state and variables that a run starts from.
#pragma once

#include <string>

#include "hooks/hooks.h"

namespace trainer::train {

class Checkpointer;
class StageControl;
struct RunContext;

// Restores the state and variables of the newest checkpoint, if there is one. Throws DataError if
// the run would not continue unchanged. Chief only.
void resume(RunContext& context, Checkpointer& checkpointer, StageControl& stages);

// Imports the variables of the config's weight file. Returns the result in one line; "" if the
// config names no file. Chief only.
std::string import_weights(RunContext& context);

// Gives all ranks the state and the variables of the chief. Collective.
void copy_from_chief(RunContext& context, StageControl& stages);

// Returns the facts for Hook::on_start(). `weights` is the result of import_weights().
hooks::RunInfo run_info(const RunContext& context, const std::string& weights);

// Warns when batch norm takes its statistics over few samples.
void warn_of_small_batches(const RunContext& context);

}  // namespace trainer::train
