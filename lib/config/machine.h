// The file of `trainer plan --machine`: a machine that need not be here.
#pragma once

#include <string>

#include "base/threads/topology.h"

namespace trainer::config {

class FieldVisitor;

// A machine has at most so many cores: a plan starts a thread for each.
inline constexpr std::int64_t kMostCores = 1024;

// Throws ConfigError with every mistake found, in file order.
MachineShape load_machine(const std::string& path);
// The same for text already in memory; `file` is used in messages.
MachineShape parse_machine(const std::string& text, const std::string& file);

void fields(FieldVisitor& v, MachineShape& s);

}  // namespace trainer::config
