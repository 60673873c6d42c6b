#include "backend/cuda_plugin.h"

#include <dlfcn.h>

#include <filesystem>

#include "backend/shared_library.h"

namespace trainer::backend {
namespace {

namespace fs = std::filesystem;
using Cause = NoGpu::Cause;

constexpr char kFile[] = "libtrainer_cuda.so";

// The values of cudaError_t for a machine without a GPU. The program is built without the CUDA
// Toolkit.
constexpr int kStubLibrary = 34, kInsufficientDriver = 35, kNoDevice = 100;

std::string find_library() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path installed = (folder / "../lib/trainer").lexically_normal();
  const fs::path wheel = (folder / "../imagetrainer_cuda").lexically_normal();
  for (const fs::path& place : {folder, installed, wheel}) {
    if (fs::exists(place / kFile, error)) return (place / kFile).string();
  }
  throw NoGpu(
      Cause::kNone,
      concat("this program has no CUDA backend: there is no ", kFile, " in ", folder.string(), ", ",
             installed.string(), " or ", wheel.string(),
             "; install the wheel imagetrainer-cuda if the program was installed by pip, "
             "build it with `cmake --build --preset release --target trainer_cuda` where the "
             "CUDA Toolkit, cuDNN and NCCL are installed, or name the file in the "
             "environment variable TRAINER_CUDA_PLUGIN"));
}

NoGpu no_driver() {
  return {Cause::kNone,
          "this machine has no NVIDIA driver: libcuda.so.1 was not found; install the driver if "
          "there is a GPU"};
}

// Checks for the driver before the backend is opened, because the backend's libraries take longer
// to load than the program takes to start.
void require_driver() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) throw no_driver();
  ::dlclose(driver);
}

std::string cuda_version(int version) {  // 13020 is 13.2
  return concat(version / 1000, ".", version % 1000 / 10);
}

NoGpu explain(const cuda::GpuSurvey& survey) {
  if (survey.status == kStubLibrary) {
    return {
        Cause::kBroken,
        "the libcuda.so.1 that was found is the CUDA Toolkit's stub, which has no driver behind "
        "it; remove the toolkit's folder stubs from LD_LIBRARY_PATH, or install the NVIDIA "
        "driver"};
  }
  if (survey.status == kInsufficientDriver && survey.driver_version == 0) return no_driver();
  if (survey.status == kInsufficientDriver) {
    return {Cause::kBroken, concat("the NVIDIA driver is too old: it supports CUDA ",
                                   cuda_version(survey.driver_version),
                                   ", and the CUDA backend was built with "
                                   "CUDA ",
                                   cuda_version(survey.runtime_version), "; update the driver")};
  }
  if (survey.status == kNoDevice || survey.status == 0) {
    return {
        Cause::kNone,
        "the NVIDIA driver finds no GPU; check that CUDA_VISIBLE_DEVICES is unset or names one, "
        "and what nvidia-smi prints"};
  }
  return {Cause::kBroken, concat("the CUDA runtime cannot list the GPUs: ", survey.status_text,
                                 "; check what nvidia-smi prints")};
}

}  // namespace

CudaPlugin::CudaPlugin(const std::string& path, Driver driver) {
  const std::string file = path.empty() ? find_library() : path;
  if (path.empty() && driver == Driver::kNeeded) require_driver();
  const std::string install = concat("install the ", kFile, " that was built with the program");
  try {
    const SharedLibrary library(
        {file, concat("the CUDA backend ", file, " cannot be opened"),
         "install what is missing, in the version that the backend was built with, or add its "
         "folder to LD_LIBRARY_PATH",
         "is not a CUDA backend of this program: it has no function", install});
    cuda::InterfaceFunction* interface = nullptr;
    library.require("trainer_cuda_interface", interface);
    if (const int version = interface(); version != cuda::kPluginInterface) {
      throw DeviceError(concat("the CUDA backend ", file, " has version ", version,
                               " of the interface, this program has version ",
                               cuda::kPluginInterface, "; ", install));
    }
    library.require("trainer_cuda_libraries", libraries_);
    library.require("trainer_cuda_list", list_);
    library.require("trainer_cuda_open", open_);
  } catch (const DeviceError& error) {
    throw NoGpu(Cause::kBroken, error.what());
  }
}

std::vector<Gpu> CudaPlugin::gpus() const {
  cuda::GpuSurvey survey;
  list_(survey);
  if (survey.status != 0 || survey.gpus.empty()) throw explain(survey);
  return std::move(survey.gpus);
}

std::string CudaPlugin::describe_libraries(bool with_nccl) const {
  std::string text;
  libraries_(with_nccl, text);
  return text;
}

std::vector<std::unique_ptr<Backend>> CudaPlugin::open(const DeviceOptions& options) const {
  std::vector<std::unique_ptr<Backend>> backends;
  open_(options, backends);
  return backends;
}

}  // namespace trainer::backend
