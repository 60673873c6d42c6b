// The results that the program writes, by name: files of runs, and the lines of --json.
#pragma once

#include <string>
#include <vector>

#include "results/describe.h"

namespace trainer::results {

struct ResultDescription {
  std::string name;
  std::string meaning;
  Form form;
};

std::vector<ResultDescription> list_results();
// Throws ConfigError that lists the names for another name.
ResultDescription find_description(const std::string& name);

}  // namespace trainer::results
