// Reads the file of `trainer plan --machine`, which describes any machine.
#pragma once

#include <string>

#include "base/threads/topology.h"

namespace trainer::config {

class FieldVisitor;

// The largest number of cores of a machine; a plan starts a thread for each.
inline constexpr std::int64_t kMaxCores = 1024;

// Throws ConfigError with every mistake found, in file order.
MachineShape load_machine(const std::string& path);
// Does the same for text in memory. `file` is used in messages.
MachineShape parse_machine(const std::string& text, const std::string& file);

void fields(FieldVisitor& v, MachineShape& s);

}  // namespace trainer::config
