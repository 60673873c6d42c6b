// The entry points of the CUDA backend on the real CUDA runtime, with nothing behind them.
#include "backend/cuda/backend.h"
#include "backend/cuda/plugin.h"
#include "base/error.h"

namespace trainer::backend::cuda {

std::vector<std::unique_ptr<Backend>> open_gpus(const DeviceOptions& options) {
  throw DeviceError(concat("opened on ", options.gpus.size(), " GPUs"));
}

}  // namespace trainer::backend::cuda

void trainer_cuda_libraries(bool, trainer::backend::GpuLibraries&) {}
