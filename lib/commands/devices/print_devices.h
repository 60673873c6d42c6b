// The output of `trainer devices`.
#pragma once

#include <ostream>

#include "backend/open.h"

namespace trainer::commands {

// Prints {"event":"devices","cpu":...,"gpus":[{"index":...,"name":...,"compute_capability":"9.0",
// "multiprocessors":...,"memory_bytes":...}],"no_gpu":...}. "no_gpu" is the reason why there
// is no GPU, or null.
void print_devices_json(const backend::Platform& platform, std::ostream& out);
// Prints the devices of this machine as text, one per line.
void print_devices(const backend::Platform& platform, std::ostream& out);

}  // namespace trainer::commands
