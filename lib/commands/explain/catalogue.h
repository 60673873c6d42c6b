// The results that the program writes, by name: files of runs, and the lines of --json.
#pragma once

#include <string>
#include <vector>

#include "results/describe.h"

namespace trainer::commands {

struct ResultDescription {
  std::string name;
  std::string meaning;
  results::Form form;
};

// Lists the lines of each command that has --json, by the name of the command, and the files.
std::vector<ResultDescription> list_results();
// Throws ConfigError that lists the names for another name.
ResultDescription find_description(const std::string& name);

}  // namespace trainer::commands
