// The parts of a run's step times, for its page. Inside the folder.
#pragma once

#include <string>

#include "results/run_files/run_files.h"

namespace trainer::results {

// Returns one bar per rank, divided by phase, a table of the numbers, and the name of the
// straggler. Returns "" for a run without step times.
std::string step_time_section(const RunFiles& run);

}  // namespace trainer::results
