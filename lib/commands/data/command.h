// The command `data`.
#pragma once

#include <cstdint>
#include <string>

#include "commands/load_config/load_config.h"

namespace trainer::commands {

struct DataArguments : ConfigArguments {
  std::string group_by;  // regular expression on paths; its group must stay within one split
  std::string sheet;     // write a contact sheet here in place of checking
  std::string suspects;  // a run or folder of crossval; see find_judging_runs()
  std::string output = "suspects.csv";  // the file that --suspects writes
  bool overwrite = false;               // a sheet or suspects that exist
  bool strict = false;                  // warnings are errors
  std::int64_t samples = 64;
};
// Checks the samples, writes the sheet, or looks for suspects. Throws Error, also for what training
// would reject, and with `strict` for anything that the check found.
int execute(const DataArguments& arguments, const Context& context);

}  // namespace trainer::commands
