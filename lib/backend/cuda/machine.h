// The properties of a device that lowering uses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/cuda/plans/convolution.h"
#include "backend/cuda/plans/matmul.h"
#include "backend/cuda/stream.h"
#include "base/process/progress.h"

namespace trainer::backend::cuda {

// Ways of running that locate a fault on a device. Both are slow.
struct Debugging {
  bool capture = true;       // false, by TRAINER_CUDA_GRAPHS=0: no call is captured as a graph
  bool wait_per_op = false;  // true, by TRAINER_CUDA_SYNC=1: the host waits after each op
};

struct Machine {
  int device = 0;            // kPlannedDevice: the GPU need not be present
  std::string name;          // "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;  // compute capability
  std::int64_t memory = 0;   // bytes
  int driver = 0;            // 13000 is 13.0
  std::shared_ptr<ConvolutionPlanner> convolutions;
  std::shared_ptr<MatmulPlanner> matmuls;
  // These are checked after each wait for the device. Null if the device is only planned for.
  std::shared_ptr<DeviceCollectives> peers;
  Debugging debugging;
  Progress progress;  // advances with the steps, and has the waits for the device
};

}  // namespace trainer::backend::cuda
