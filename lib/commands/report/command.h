// The command `report`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/context/context.h"
#include "config/config.h"
#include "results/field.h"

namespace trainer::commands {

struct ReportArguments {
  std::string folder;
  std::string output;  // <folder>/report.html when empty
  bool overwrite = false;
  std::optional<double> to_accuracy;
  std::string plots;  // folder; plots in that of the run when empty and the output is there
  std::int64_t mistakes = 24;
  double seconds = 60;  // to look for mistakes
  bool last = false;    // look with the last checkpoint
  bool json = false;
  std::vector<config::Override> overrides;
};
// Returns kExitData if a part of the report could not be made.
int execute(const ReportArguments& arguments, const Context& context);

// What `report --json` prints.
struct ReportEvent {
  std::string output;
  bool is_complete = true;
};
void fields(results::FieldVisitor& v, ReportEvent& event);

}  // namespace trainer::commands
