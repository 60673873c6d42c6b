// The warnings that a run has printed since it has its folder: a line of JSON each.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "results/field.h"

namespace trainer::results {

inline constexpr const char* kRunWarningsFile = "warnings.jsonl";

struct RunWarning {
  std::string time;  // in UTC: "2026-11-27T00:06:12.250Z"
  std::string text;
};
void fields(FieldVisitor& v, RunWarning& warning);

// Appends the warning to the file in the run folder. Several threads may do so. A file that cannot
// be written is left as it is: the process prints the warning, too.
void add_run_warning(const Path& run, const RunWarning& warning);
// Returns the newest warnings, at most 100, the newest last; none without a file. Their texts can
// be printed. Leaves out lines that are not whole.
std::vector<RunWarning> read_run_warnings(const Path& run);

}  // namespace trainer::results
