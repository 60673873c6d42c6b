// Where the time of a run's steps went, for its page; inside the folder.
#pragma once

#include <string>

#include "experiment/run_files.h"

namespace trainer::report {

// A bar a rank, cut by phase, with a table of the numbers and the straggler in words; "" for a run
// that does not tell.
std::string step_time_section(const experiment::RunFiles& run);

}  // namespace trainer::report
