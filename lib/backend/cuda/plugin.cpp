#include "backend/cuda/plugin.h"

#include <cuda_runtime_api.h>

#include "backend/cuda/backend.h"
#include "backend/cuda/runtime.h"
#include "backend/cuda/telemetry/gpu_faults.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

Gpu describe_gpu(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return {properties.name,
          properties.major,
          properties.minor,
          static_cast<std::int64_t>(properties.totalGlobalMem),
          properties.multiProcessorCount,
          index,
          describe_faults(index)};
}

}  // namespace
}  // namespace trainer::backend::cuda

using trainer::backend::cuda::kPluginInterface;

int trainer_cuda_interface() { return kPluginInterface; }

void trainer_cuda_list(trainer::backend::cuda::GpuSurvey& survey) {
  using namespace trainer;
  survey = {};
  survey.runtime_version = CUDART_VERSION;
  survey.architectures = TRAINER_CUDA_ARCHITECTURES;
  cudaDriverGetVersion(&survey.driver_version);  // stays 0 where it fails: no driver
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();  // clears it, so that the next call does not report it again
  survey.status = status;
  if (status != cudaSuccess) {
    survey.status_text = backend::cuda::describe_error(status);
    return;
  }
  for (int gpu = 0; gpu < count; ++gpu) {
    survey.gpus.push_back(backend::cuda::describe_gpu(gpu));
  }
}

void trainer_cuda_open(const trainer::backend::DeviceOptions& options,
                       std::vector<std::unique_ptr<trainer::backend::Backend>>& backends) {
  backends = trainer::backend::cuda::open_gpus(options);
}
