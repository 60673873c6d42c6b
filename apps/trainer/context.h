// What the commands use of this process.
#pragma once

#include "commands/context/context.h"

namespace trainer::app {

// Returns the environment, the standard streams and the terminal of this process.
commands::Context make_context();

}  // namespace trainer::app
