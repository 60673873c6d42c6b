// Opens the devices that a process trains on.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/threads/topology.h"

namespace trainer::backend {

struct DeviceOptions {
  DeviceKind kind = DeviceKind::kAuto;
  std::int64_t replicas = 1;  // backends to open
  // The index of each replica's GPU, from 0; a GPU listed twice has two replicas. Empty: each of
  // the first GPUs has one replica. The CPU ignores it.
  std::vector<int> gpus;
  // The number of this process among the processes of this machine that train together. If there
  // are GPUs for the replicas of all these processes, each takes its share; otherwise each process
  // is assumed to see GPUs of its own.
  int local_rank = 0, local_size = 1;
  // open_backends() sets both; see use_cuda_plan_cache() and use_cuda_tuning_cache().
  std::string plan_cache, tuning_cache;
  // The name of a GpuModel to plan for; "" for the GPUs of this machine. open_backends() sets it;
  // see plan_for_gpu().
  std::string planned;
  // The machine to plan for; empty for this machine. open_backends() sets it; see
  // plan_for_machine().
  std::optional<Topology> machine;
  // The longest that the ranks of several GPUs wait for each other.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  // The value of parallel.gpus if it is a number above 0, for messages.
  std::optional<std::int64_t> gpu_count;
  // Settings of the CPU backend, which chooses the ones that are left out.
  struct Cpu {
    std::optional<std::int64_t> threads = {};  // processor cores of all replicas together
    // Micro-batches that each replica computes side by side.
    std::optional<std::int64_t> lanes = {};
    bool pin = false;  // each replica stays on cores of its own
  } cpu;
  // Settings of the CUDA backend.
  struct Cuda {
    bool autotune = false;  // times the kernels of each layer and keeps the fastest
  } cuda;
  // The ReductionOptions that executables will be compiled with: the replicas of all processes
  // share the micro-batches.
  bool ordered = false;
  std::int64_t micro_batches = 8;
  std::int64_t processes = 1;
};

// Opens one backend for each replica. Throws DeviceError naming what this machine or build lacks.
std::vector<std::unique_ptr<Backend>> open_backends(const DeviceOptions& options);

// A GPU of this machine.
struct Gpu {
  std::string name;               // "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;       // compute capability
  std::int64_t memory_bytes = 0;  // memory of the device
  std::int64_t multiprocessors = 0;
};
struct GpuList {
  std::vector<Gpu> gpus;  // indexed by the number of the GPU
  std::string reason;     // a sentence without its full stop why the list is empty; else ""
  // True if there is a library or driver that does not work. Otherwise this machine or build has
  // nothing for GPUs.
  bool broken = false;
};
// Lists the GPUs that open_backends() can use. Opens the CUDA backend; does not throw if there is
// no GPU.
GpuList list_gpus();

// Sets the path of the CUDA backend's library; "" is the one beside the program. Call it before any
// device is opened.
void use_cuda_plugin(const std::string& path);
// Sets the folder in which the CUDA backend keeps its plans of convolutions from one process to the
// next; "" (the default) is none. Call it before any device is opened.
void use_cuda_plan_cache(const std::string& folder);

// Sets the folder in which the CUDA backend keeps which kernels parallel.autotune found fastest,
// which is made when it is missing; "" (the default) is none. Call it before any device is opened.
void use_cuda_tuning_cache(const std::string& folder);

// Plans for a GPU of this model (gpu_model.h), which this machine need not have: every backend that
// is not a CPU's compiles for it from now on and reports what the program takes, but runs nothing
// and holds no values. If the CUDA backend cannot be opened, the backend is an estimate whose
// description gives the reason. The default "" stands for the GPUs of this machine. Throws
// ConfigError if there is no such model.
void plan_for_gpu(const std::string& model);

// Plans for another machine without GPUs: from now on the CPU backend takes as many threads and
// chooses lanes as there, and pins no thread. The default is this machine.
void plan_for_machine(const std::optional<Topology>& machine);
// Returns the processors of the CPU backend.
Topology machine_topology();

// Returns the same devices with every sum in another order, one for each small `variant` from 0 on,
// so that further runs show how much rounding changes a model; empty if a backend has only one
// order.
std::optional<DeviceOptions> reorder_sums(const DeviceOptions& options, std::int64_t variant);

// Returns a warning for the user about options that this machine cannot serve well; "" if there is
// none.
std::string device_warning(const DeviceOptions& options);

}  // namespace trainer::backend
