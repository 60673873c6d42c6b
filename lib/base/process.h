// What the system says of this process and its host.
#pragma once

#include <map>
#include <string>

namespace trainer {

std::string host_name();  // as the host calls itself
// The variables that the process was started with.
std::map<std::string, std::string> environment_variables();

}  // namespace trainer
