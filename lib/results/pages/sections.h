// The sections of reports, inside the folder. Each returns "" when the run has no data for
// it.
#pragma once

#include <string>
#include <vector>

#include "results/page/svg.h"
#include "results/pages/mistakes.h"
#include "results/run_files/run_files.h"
#include "results/sweeps/summary.h"

namespace trainer::results {

// Returns "68 %" for a headline; "100 %" only if all are right. `count` must be positive.
std::string right_share(std::int64_t right, std::int64_t count);
// Splits, classes and files that were skipped or replaced.
std::string data_section(const RunFiles& run);
// Charts of the GPUs that were measured: utilisation, memory, power, temperature.
std::vector<Chart> device_charts(const RunFiles& run);
// The use of each rank's and each GPU's time and memory, with charts of the GPUs.
std::string device_section(const RunFiles& run);
// Charts and section of what `evaluate` has stored of calibration, curves, an operating point,
// abstention and thresholds in the run. They throw DataError for a damaged file.
std::vector<Chart> probability_charts(const RunFiles& run);
std::string probabilities_section(const RunFiles& run);
std::string mistakes_section(const Mistakes& mistakes);
// The environment of the first run of a sweep that has one.
std::string environment_section(const Summary& summary);

}  // namespace trainer::results
