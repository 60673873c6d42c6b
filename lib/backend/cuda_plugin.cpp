#include "backend/cuda_plugin.h"

#include <dlfcn.h>

#include <filesystem>

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

void* open_library(const std::string& file) {
  // RTLD_LOCAL: the library has copies of functions of the program, which must not replace them.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library != nullptr) return library;
  throw NoGpu(Cause::kBroken,
              concat("the CUDA backend ", file, " cannot be opened: ", ::dlerror(),
                     "; install what is missing, in the version that the backend was built with, "
                     "or add its folder to LD_LIBRARY_PATH"));
}

template <class Function>
Function* find_function(void* library, const std::string& file, const char* name) {
  ::dlerror();
  if (void* address = ::dlsym(library, name)) return reinterpret_cast<Function*>(address);
  const char* reason = ::dlerror();
  throw NoGpu(Cause::kBroken,
              concat(file, " is not a CUDA backend of this program: it has no function ", name,
                     " (", reason == nullptr ? "its address is 0" : reason, "); install the ",
                     kFile, " that was built with the program"));
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
  void* library = open_library(file);
  const int version =
      find_function<cuda::InterfaceFunction>(library, file, "trainer_cuda_interface")();
  if (version != cuda::kPluginInterface) {
    throw NoGpu(Cause::kBroken,
                concat("the CUDA backend ", file, " has version ", version,
                       " of the interface, this program has version ", cuda::kPluginInterface,
                       "; install the ", kFile, " that was built with the program"));
  }
  list_ = find_function<cuda::ListFunction>(library, file, "trainer_cuda_list");
  open_ = find_function<cuda::OpenFunction>(library, file, "trainer_cuda_open");
}

std::vector<Gpu> CudaPlugin::gpus() const {
  cuda::GpuSurvey survey;
  list_(survey);
  if (survey.status != 0 || survey.gpus.empty()) throw explain(survey);
  return std::move(survey.gpus);
}

std::vector<std::unique_ptr<Backend>> CudaPlugin::open(const DeviceOptions& options) const {
  std::vector<std::unique_ptr<Backend>> backends;
  open_(options, backends);
  return backends;
}

}  // namespace trainer::backend
