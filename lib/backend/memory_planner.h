// Backends whose device has memory of its own, which can be planned.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "base/error.h"

namespace trainer::backend {

// Thrown if the device has too little memory for an allocation.
class OutOfMemory : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// A Backend whose device has memory of its own is also a MemoryPlanner; use dynamic_cast.
class MemoryPlanner {
 public:
  virtual ~MemoryPlanner() = default;
  // Returns the bytes of the device that allocations may still take.
  virtual std::int64_t free_memory() const = 0;
  // Returns a backend that compiles as this one does, but takes no memory of the device and runs
  // nothing: its executables report what they would take. It must not outlive this one.
  virtual std::unique_ptr<Backend> plan_only() = 0;
};

}  // namespace trainer::backend
