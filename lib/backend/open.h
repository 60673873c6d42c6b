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
  // Which of the processes of this machine that train together this is. Where there are GPUs for
  // the replicas of all of them, each takes its share; otherwise each is taken to see its own.
  int local_rank = 0, local_size = 1;
  // Set by open_backends(): see use_cuda_plan_cache() and use_cuda_tuning_cache().
  std::string plan_cache, tuning_cache;
  // Set by open_backends(): the name of a GpuModel to plan for, of which `gpus` are so many; "":
  // the GPUs are here. See plan_for_gpu().
  std::string planned;
  // Set by open_backends(): see plan_for_machine(); none: this machine.
  std::optional<Topology> machine;
  // The longest that the ranks of several GPUs wait for each other.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  // The value of parallel.gpus if it is a number above 0, for messages.
  std::optional<std::int64_t> gpu_count;
  // Settings of the CPU backend, which chooses those that are left out.
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
  std::int64_t memory_bytes = 0;  // of the device
  std::int64_t multiprocessors = 0;
};
struct GpuList {
  std::vector<Gpu> gpus;  // by index
  std::string reason;     // why the list is empty, a sentence without its full stop; else ""
  // Whether a library or driver is there that does not work. Otherwise this machine or build has
  // nothing for GPUs.
  bool broken = false;
};
// The GPUs that open_backends() can use. Opens the CUDA backend; does not throw when there is no
// GPU.
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

// From now on every backend but a CPU's is of a GPU of this model (gpu_model.h), which need not be
// here: it compiles and tells what that takes, but runs nothing and holds no values. Where the CUDA
// backend cannot be opened it is an estimate, whose description says why. "", as at first: GPUs of
// this machine. Throws ConfigError when there is no such model.
void plan_for_gpu(const std::string& model);

// From now on the CPU backend is of this machine, which need not be here: it takes as many threads
// and chooses lanes as there, and keeps none on a processor. That machine has no GPUs. None, as at
// first: this machine.
void plan_for_machine(const std::optional<Topology>& machine);
// The processors of the CPU backend.
Topology machine_topology();

// The same devices with every sum in another order, so that a second run shows how much rounding
// changes a model; nothing where a backend has one order only.
std::optional<DeviceOptions> with_other_sums(const DeviceOptions& options);

// A warning for the user about options that this machine cannot serve well; "" when there is
// none.
std::string device_warning(const DeviceOptions& options);

}  // namespace trainer::backend
