// Reports numbers that are not finite.
#pragma once

#include <string>

#include "train/steps/steps.h"

namespace trainer::train {

// Throws CheckError with `what`, the last good checkpoint and advice.
[[noreturn]] void throw_not_finite(const std::string& what, const std::string& last_checkpoint);

// Reports "the loss is not finite at step 12 (epoch 1, ...", where the step is that after the run's
// state. The exit code is kExitData if samples are the cause.
[[noreturn]] void throw_not_finite(const NotFinite& found, const RunContext& context,
                                   const std::string& last_checkpoint);

}  // namespace trainer::train
