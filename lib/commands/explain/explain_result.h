// The keys of results as a list to read: for `trainer explain --result` and
// configs/output_reference.md.
#pragma once

#include <string>
#include <vector>

namespace trainer::commands {

// A key of a file or of a line of --json.
struct ExplainedOutput {
  std::string path;   // "finished.metrics.NAME.loss"
  std::string value;  // the values that it may have: "a number of samples, or null"
  std::string meaning;
};
// Returns the keys of a result of results/catalogue.h: one list, or one for each kind of line.
// Throws ConfigError for another name.
std::vector<std::vector<ExplainedOutput>> list_outputs(const std::string& result);

// Returns these as lines.
std::string explain_result(const std::string& result);

}  // namespace trainer::commands
