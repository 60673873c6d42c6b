// Opens the devices that a process trains on.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace trainer::backend {

struct DeviceOptions {
  // kAuto: the GPUs when the CUDA backend opens and there is one, else the CPU.
  enum class Kind { kAuto, kCpu, kCuda } kind = Kind::kAuto;
  std::int64_t replicas = 1;  // backends to open
  // The GPU of each replica, counted from 0; one that comes twice has two replicas. Empty: each of
  // the first GPUs has one. The CPU only has replicas.
  std::vector<int> gpus;
  std::string plan_cache;  // set by open_backends(): see use_cuda_plan_cache()
  // The longest that ranks of several GPUs wait for each other.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
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

// A GPU of this machine.
struct Gpu {
  std::string name;               // "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;       // compute capability
  std::int64_t memory_bytes = 0;  // of the device
  std::int64_t multiprocessors = 0;
};
struct GpuList {
  std::vector<Gpu> gpus;  // by index
  std::string reason;     // why there is none, as a sentence without its full stop; else ""
  // Whether something is there that does not work: a library, an old driver. Otherwise this machine
  // or build has nothing for GPUs.
  bool broken = false;
};
// The GPUs that open_backends() can use. Opens the CUDA backend; does not throw for the lack of
// one.
GpuList list_gpus();

// The CUDA backend's library in place of the one beside the program; "" is that one. To be called
// before any device is opened.
void use_cuda_plugin(const std::string& path);
// A folder in which the CUDA backend keeps its plans of convolutions from one process to the next;
// "", as at first, is none. To be called before any device is opened.
void use_cuda_plan_cache(const std::string& folder);

// What the user should know of options that this machine cannot serve well; "" when there is
// nothing.
std::string device_warning(const DeviceOptions& options);

}  // namespace trainer::backend
