// Opens the devices that a process trains on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/process/environment.h"
#include "base/process/progress.h"
#include "base/threads/topology.h"

namespace trainer::backend {

// The machine that backends are opened on, and the files that they use of it. The default is this
// machine, with the library of the CUDA backend beside the program and no caches.
struct Platform {
  // The path of the CUDA backend's library; "": the one beside the program.
  std::string cuda_plugin = {};
  // The folder in which the CUDA backend keeps its plans of convolutions from one process to the
  // next; "": none.
  std::string plan_cache = {};
  // The folder in which the CUDA backend keeps which kernels parallel.autotune found fastest, which
  // is made when it is missing; "": none.
  std::string tuning_cache = {};
  // The name of a GpuModel (gpu_model.h) to plan for, which this machine need not have; "": its own
  // GPUs. Every backend that is not a CPU's compiles for it and reports what the program takes, but
  // runs nothing and holds no values. This needs the CUDA backend and its libraries, but no driver.
  std::string planned_gpu = {};
  // The folder in which the kernel describes the NVIDIA driver that is loaded.
  std::string driver_folder = "/proc/driver/nvidia";
  // A machine without GPUs to plan for; empty: this machine. The CPU backend takes as many threads
  // and chooses lanes as there, and pins no thread.
  std::optional<Topology> planned_machine = {};
  // Advances with the work of the devices, and has their activities.
  Progress progress = {};
};
// Returns this machine with the files that TRAINER_CUDA_PLUGIN and TRAINER_CUDA_PLAN_CACHE name.
// The cache of tuning is in the latter folder, in XDG_CACHE_HOME or in HOME.
Platform read_platform(const Environment& environment);
// Throws ConfigError if there is no GpuModel with the name of the planned GPU.
void check_planned_gpu(const Platform& platform);
// Returns the processors of the CPU backend.
Topology machine_topology(const Platform& platform);

struct DeviceOptions {
  Platform platform;
  DeviceKind kind = DeviceKind::kAuto;
  std::int64_t replicas = 1;  // backends to open
  // The number of each replica's GPU (Gpu::number); a GPU listed twice has two replicas. Empty:
  // each of the first GPUs that can be used has one replica. The CPU ignores it.
  std::vector<int> gpus;
  // The number of this process among the processes of this machine that train together. If there
  // are GPUs for the replicas of all these processes, each takes its share; otherwise each process
  // is assumed to see GPUs of its own.
  int local_rank = 0, local_size = 1;
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
    // Returns the choice that all processes of the job use for a key, the first that any of them
    // gave. Null: this process is alone.
    std::function<std::string(const std::string& key, const std::string& choice)> agree = {};
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
  int number = 0;           // the number among all GPUs of this machine, from 0
  std::string faults = {};  // the faults that NVML has counted; "" if there are none
};
struct GpuList {
  std::vector<Gpu> gpus;              // the GPUs that can be used
  std::vector<std::string> left_out;  // a sentence without its full stop for each other GPU
  std::string reason;  // a sentence without its full stop why `gpus` is empty; else ""
  // True if there is a library or driver that does not work. Otherwise this machine or build has
  // nothing for GPUs.
  bool broken = false;
};
// Lists the GPUs that open_backends() can use. Opens the CUDA backend; does not throw if there is
// no GPU.
GpuList list_gpus(const Platform& platform);

// What the GPUs of this machine run with.
struct GpuLibraries {
  // The versions of the libraries of the CUDA backend and of the driver, and how they differ from
  // the set that was checked.
  std::string versions;
  std::string gpus;  // the name and the UUID of each GPU, a line each
};
// Opens the CUDA backend. `with_nccl` loads NCCL, which several GPUs need. Throws DeviceError.
GpuLibraries find_gpu_libraries(const Platform& platform, bool with_nccl);

// Returns Backend::prefers_bfloat16() of the backends that open_backends() would open, but opens no
// GPU.
bool prefers_bfloat16(const DeviceOptions& options);

// Returns the same devices with every sum in another order, one for each small `variant` from 0 on,
// so that further runs show how much rounding changes a model; empty if a backend has only one
// order.
std::optional<DeviceOptions> reorder_sums(const DeviceOptions& options, std::int64_t variant);

// Returns a warning for the user about options that this machine cannot serve well; "" if there is
// none.
std::string device_warning(const DeviceOptions& options);

}  // namespace trainer::backend
