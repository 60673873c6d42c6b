// The output of `trainer devices`.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "backend/open.h"
#include "results/field.h"

namespace trainer::commands {

// What `devices --json` prints.
struct DeviceList {
  struct Gpu {
    int index = 0;
    std::string name, compute_capability;
    std::int64_t multiprocessors = 0, memory_bytes = 0;
    std::string faults;
  };
  std::string cpu;
  std::vector<Gpu> gpus;
  std::vector<std::string> left_out;
  std::optional<std::string> no_gpu;
};
void fields(results::FieldVisitor& v, DeviceList& list);

void print_devices_json(const backend::Platform& platform, std::ostream& out);
// Prints the devices of this machine as text, one per line.
void print_devices(const backend::Platform& platform, std::ostream& out);

}  // namespace trainer::commands
