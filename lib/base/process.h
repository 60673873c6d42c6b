// Facts about this process and its host, as the operating system reports them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainer {

std::string host_name();  // as the host calls itself
// Peak resident memory of this process so far, in bytes.
std::int64_t peak_memory_bytes();
// "Intel(R) Xeon(R) ..."; "" where the system does not tell.
std::string processor_name();
// The program and its arguments.
std::vector<std::string> command_line();
// The variables that the process was started with.
std::map<std::string, std::string> environment_variables();

}  // namespace trainer
