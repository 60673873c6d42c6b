// cuDNN's description of a GPU that is here, and of those that plans are made for without one, for
// scripts/gpu_check.sh to compare.
//
//   cuda_device_properties INDEX     of GPU INDEX, a JSON object
//   cuda_device_properties models    of every known model, a JSON object a line
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "backend/cuda/plans/cudnn.h"
#include "backend/gpu_model.h"
#include "base/error.h"

namespace {

int print_models() {
  for (const trainer::backend::GpuModel& model : trainer::backend::gpu_models()) {
    std::puts(trainer::backend::cudnn_properties(model).c_str());
  }
  return 0;
}

int print_gpu(int index) {
  if (const cudaError_t status = cudaSetDevice(index)) {
    std::fprintf(stderr, "cudaSetDevice(%d): %s\n", index, cudaGetErrorString(status));
    return 1;
  }
  try {
    std::puts(trainer::backend::cuda::CudnnDevice("").properties().c_str());
  } catch (const trainer::Error& error) {
    std::fprintf(stderr, "cuDNN does not describe GPU %d: %s\n", index, error.what());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: cuda_device_properties INDEX | models\n", stderr);
    return 2;
  }
  return std::string_view(argv[1]) == "models" ? print_models() : print_gpu(std::atoi(argv[1]));
}
