// The sections of reports, inside the folder. Each is empty when the run has no data for it.
#pragma once

#include <string>

#include "results/decisions/cost_matrix.h"
#include "results/document/document.h"
#include "results/pages/mistakes.h"
#include "results/run_files/run_files.h"
#include "results/sweeps/summary.h"

namespace trainer::results {

// Returns "68 %" for a headline; "100 %" only if all are right. `count` must be positive.
std::string right_share(std::int64_t right, std::int64_t count);
// Returns the name of a rank of the run: its host, or "rank 1".
std::string rank_name(const RunFiles& run, std::size_t rank);
// Splits, classes and files that were skipped or replaced.
Document data_section(const RunFiles& run);
// The use of each rank's and each GPU's time and memory, with charts of the GPUs.
Document device_section(const RunFiles& run);
// What `evaluate` has stored of calibration, curves, an operating point, abstention, thresholds and
// novelty in the run. Throws DataError for a damaged file.
Document probabilities_section(const RunFiles& run);
// Adds the costs of few classes, and the decisions by them.
void append_costs(Document& section, const CostReport& report, const std::string& source);
Document mistakes_section(const Mistakes& mistakes);
// A bar per rank that is divided by phase, a table of the numbers, and the straggler.
Document step_time_section(const RunFiles& run);
// The environment of the first run of a sweep that has one.
Document environment_section(const Summary& summary);

}  // namespace trainer::results
