// What libtrainer_cuda.so exports to the program, and nothing else. Program and library are built
// from the same sources by the same compiler: C++ objects and exceptions pass between them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/open.h"

namespace trainer::backend::cuda {

// Must be raised when a declaration changes that both sides use: here, in backend/backend.h, and in
// the headers that these include.
inline constexpr int kPluginInterface = 15;

// The facts that the CUDA runtime reports about this machine.
struct GpuSurvey {
  int status = 0;           // cudaError_t of counting the GPUs
  std::string status_text;  // the name and text of the error, and what to do
  // 13000 is CUDA 13.0: the newest that the driver supports, 0 without a driver; and the one that
  // the library was built with.
  int driver_version = 0;
  int runtime_version = 0;
  // CMAKE_CUDA_ARCHITECTURES of the kernels, with commas: "80-real,100".
  std::string architectures;
  std::vector<Gpu> gpus;  // indexed by the number of the GPU; empty unless status is 0
};

using InterfaceFunction = int();
using LibrariesFunction = void(bool with_nccl, GpuLibraries& libraries);
using ListFunction = void(GpuSurvey& survey);
using OpenFunction = void(const DeviceOptions& options,
                          std::vector<std::unique_ptr<Backend>>& backends);

}  // namespace trainer::backend::cuda

extern "C" {
// kPluginInterface of the library. The only function that may be called when it is another.
trainer::backend::cuda::InterfaceFunction trainer_cuda_interface;
// Throws DeviceError if NCCL, which `with_nccl` loads, or a GPU does not answer.
trainer::backend::cuda::LibrariesFunction trainer_cuda_libraries;
// Throws DeviceError when a GPU that was counted cannot be asked what it is.
trainer::backend::cuda::ListFunction trainer_cuda_list;
// A backend for each of options.gpus, which are numbers of trainer_cuda_list's, or any numbers with
// options.platform.planned_gpu. Throws DeviceError.
trainer::backend::cuda::OpenFunction trainer_cuda_open;
}
