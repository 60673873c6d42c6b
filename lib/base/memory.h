// The memory of the machine.
#pragma once

#include <cstdint>
#include <filesystem>

namespace trainer {

// Bytes that programs may still take without swapping: of the machine, or of the control groups
// around this process (either version) when that is less. 0 where the system does not tell. `root`
// is where /proc and /sys lie.
std::int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace trainer
