// Reads the memory of the machine.
#pragma once

#include <cstdint>
#include <filesystem>

namespace trainer {

// Returns the bytes that programs can still take without swapping: those of the machine, or those
// of the control groups around this process where these are fewer. Returns 0 where the system does
// not report them. `root` is the folder that contains /proc and /sys.
std::int64_t available_memory(const std::filesystem::path& root = "/");

// Returns the bytes that this process can have at most: the memory of the machine, or the limit of
// the control groups around this process where that is less. Returns 0 where the system does not
// report it.
std::int64_t total_memory(const std::filesystem::path& root = "/");

}  // namespace trainer
