// Prints cuDNN's description of a GPU that is here, for scripts/gpu_check.sh to compare with
// devices/*.json.
//
//   cuda_device_properties [INDEX]
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "backend/cuda/plans/cudnn.h"
#include "base/error.h"

int main(int argc, char** argv) {
  const int device = argc > 1 ? std::atoi(argv[1]) : 0;
  if (const cudaError_t status = cudaSetDevice(device)) {
    std::fprintf(stderr, "cudaSetDevice(%d): %s\n", device, cudaGetErrorString(status));
    return 1;
  }
  try {
    std::puts(trainer::backend::cuda::CudnnDevice("").properties().c_str());
  } catch (const trainer::Error& error) {
    std::fprintf(stderr, "cuDNN does not describe GPU %d: %s\n", device, error.what());
    return 1;
  }
  return 0;
}
