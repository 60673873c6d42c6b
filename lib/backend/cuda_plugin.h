// Opens the CUDA backend, a separate library, when GPUs are asked for. A process without GPUs loads
// no CUDA library.
// Reasons: lib/decisions/backend.md#the-cuda-backend-is-a-plugin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/plugin.h"
#include "backend/open.h"
#include "base/error.h"

namespace trainer::backend {

// The reason why there is no GPU to use. The message is a sentence without its full stop.
class NoGpu : public DeviceError {
 public:
  enum class Cause {
    kNone,    // this build has no CUDA backend, or this machine no driver or GPU
    kBroken,  // a library or a driver is there that does not work
  };
  NoGpu(Cause cause, const std::string& message) : DeviceError(message), cause_(cause) {}
  Cause cause() const { return cause_; }

 private:
  Cause cause_;
};

// The opened library. It stays loaded until the process ends, because errors that it has thrown may
// outlive every backend.
class CudaPlugin {
 public:
  // kNeeded rejects a machine without a driver before the library is opened. Plans need no driver.
  enum class Driver { kNeeded, kNotNeeded };
  // Opens the platform's library; "": libtrainer_cuda.so beside the program, else in
  // ../lib/trainer, where `cmake --install` puts it, else in ../imagetrainer_cuda, where the
  // wheel imagetrainer-cuda puts it. Throws NoGpu.
  explicit CudaPlugin(const Platform& platform, Driver driver = Driver::kNeeded);

  // Lists the GPUs, at least one that can be used. Throws NoGpu, or DeviceError if a GPU does not
  // answer.
  GpuList list() const;
  // Does what find_gpu_libraries() (open.h) does.
  GpuLibraries find_libraries(bool with_nccl) const;
  // Opens a backend for each of options.gpus, or for the planned GPU. Throws DeviceError.
  std::vector<std::unique_ptr<Backend>> open(const DeviceOptions& options) const;

 private:
  std::string driver_folder_;
  cuda::LibrariesFunction* libraries_ = nullptr;
  cuda::ListFunction* list_ = nullptr;
  cuda::OpenFunction* open_ = nullptr;
};

}  // namespace trainer::backend
