// Backends whose device has memory of its own, which can be planned.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "base/error.h"

namespace trainer::backend {

// The device has no more memory for what was asked of it.
class OutOfMemory : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// What a Backend also is, by dynamic_cast, where its device has memory of its own.
class MemoryPlanner {
 public:
  virtual ~MemoryPlanner() = default;
  // Bytes of the device that allocations may still take.
  virtual std::int64_t free_memory() const = 0;
  // A backend that compiles as this one does, and must not outlive it, but takes no memory of the
  // device and runs nothing: its executables tell what they would take.
  virtual std::unique_ptr<Backend> plan_only() = 0;
};

}  // namespace trainer::backend
