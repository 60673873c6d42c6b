// Facts about this process and its host, as the operating system reports them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainer {

std::string host_name();
// Returns the peak resident memory of this process so far, in bytes.
std::int64_t peak_memory_bytes();
// Returns "Intel(R) Xeon(R) ...", or "" where the system does not report the name.
std::string processor_name();
// Returns the program and its arguments.
std::vector<std::string> command_line();
// Returns the environment variables that the process was started with.
std::map<std::string, std::string> environment_variables();

}  // namespace trainer
