// What the system says of this process and its host.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace trainer {

std::string host_name();  // as the host calls itself
// Bytes of memory that this process can have at most: the machine's, or the control group's when
// that is less.
std::int64_t machine_memory();
// Most memory that this process has had in RAM so far.
std::int64_t peak_memory_bytes();
// "Intel(R) Xeon(R) ..."; "" where the system does not tell.
std::string processor_name();
// The variables that the process was started with.
std::map<std::string, std::string> environment_variables();

}  // namespace trainer
