// Opens the devices that a process trains on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace trainer::backend {

struct DeviceOptions {
  enum class Kind { kAuto, kCpu, kCuda } kind = Kind::kAuto;  // kAuto: the best that there is
  std::int64_t replicas = 1;                                  // backends to open
  // Of the CPU, for all replicas together; chosen when left out.
  std::optional<std::int64_t> threads;  // processor cores
  std::optional<std::int64_t> lanes;    // of each replica: micro-batches computed side by side
  bool pin = false;                     // whether each replica stays on cores of its own
  // What ReductionOptions::ordered will be, with so many micro-batches over the replicas of so many
  // processes.
  bool ordered = false;
  std::int64_t micro_batches = 8;
  std::int64_t processes = 1;
};

// A backend a replica. Throws DeviceError saying what this machine or build lacks.
std::vector<std::unique_ptr<Backend>> open_backends(const DeviceOptions& options);

// What the user should know of options that this machine cannot serve well; "" when there is
// nothing.
std::string device_warning(const DeviceOptions& options);

}  // namespace trainer::backend
