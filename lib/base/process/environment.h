// The variables of an environment, by name.
#pragma once

#include <map>
#include <string>

namespace trainer {

using Environment = std::map<std::string, std::string>;

// Returns the value of a variable, or "" for a variable that is not set.
inline std::string read_variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace trainer
