#include "backend/cuda_plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "backend/shared_library.h"
#include "base/text.h"

namespace trainer::backend {
namespace {

namespace fs = std::filesystem;
using Cause = NoGpu::Cause;

constexpr char kFile[] = "libtrainer_cuda.so";

// The values of cudaError_t for a machine without a GPU. The program is built without the CUDA
// Toolkit.
constexpr int kStubLibrary = 34, kInsufficientDriver = 35, kNoDevice = 100;

// Returns the release of the NVIDIA driver that is loaded, such as "570.86.15", from the line "NVRM
// version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Fri Jan ..."; "" without a driver.
// Containers see the file too.
std::string read_driver_release(const fs::path& folder) {
  std::ifstream file(folder / "version");
  if (!file) return "";
  for (std::string word; file >> word;) {
    if (word.find('.') != std::string::npos) return word;
  }
  return "of an unknown release";
}

bool has_driver_library() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

std::string find_library(const fs::path& driver_folder) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path installed = (folder / "../lib/trainer").lexically_normal();
  const fs::path wheel = (folder / "../imagetrainer_cuda").lexically_normal();
  for (const fs::path& place : {folder, installed, wheel}) {
    if (fs::exists(place / kFile, error)) return (place / kFile).string();
  }
  const bool has_driver = has_driver_library() || !read_driver_release(driver_folder).empty();
  throw NoGpu(
      has_driver ? Cause::kBroken : Cause::kNone,
      concat(has_driver ? "this machine has an NVIDIA driver, but " : "",
             "this program has no CUDA backend: there is no ", kFile, " in ", folder.string(), ", ",
             installed.string(), " or ", wheel.string(), "; ",
             folder.filename() == "imagetrainer"
                 ? "install its wheel by `pip install imagetrainer_cuda-*.whl`"
                 : "install the CUDA Toolkit, cuDNN and NCCL, and build it by `cmake --preset "
                   "release && cmake --build --preset release --target trainer_cuda`",
             ", or name the file in the environment variable TRAINER_CUDA_PLUGIN"));
}

NoGpu no_driver() {
  return {Cause::kNone,
          "this machine has no NVIDIA driver: libcuda.so.1 was not found; install the driver if "
          "there is a GPU"};
}

// Checks for the driver before the backend is opened, because the backend's libraries take longer
// to load than the program takes to start.
void require_driver(const fs::path& driver_folder) {
  if (has_driver_library()) return;
  const std::string release = read_driver_release(driver_folder);
  if (release.empty()) throw no_driver();
  throw NoGpu(Cause::kBroken,
              concat("the NVIDIA driver ", release,
                     " is loaded, but its library libcuda.so.1 was not found; start a container "
                     "with `docker run --gpus all`, and elsewhere install the driver's libraries"));
}

std::string cuda_version(int version) {  // 13020 is 13.2
  return concat(version / 1000, ".", version % 1000 / 10);
}

std::string describe_old_driver(const cuda::GpuSurvey& survey, const std::string& release) {
  const std::string runtime = cuda_version(survey.runtime_version);
  std::string package = "cuda-compat-" + runtime;
  std::ranges::replace(package, '.', '-');
  // CUDA Compatibility, "Minor Version Compatibility", has the least driver.
  return concat("the NVIDIA driver", release.empty() ? "" : " " + release,
                " is too old: it supports CUDA ", cuda_version(survey.driver_version),
                ", and the CUDA backend was built with CUDA ", runtime, "; update the driver",
                survey.runtime_version / 1000 == 13 ? " to 580 or newer" : "",
                ", or, with data-centre GPUs only, install ", package,
                " if https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html "
                "lists the driver for it");
}

// Returns whether kernels that were compiled for `architectures`, as in GpuSurvey, run on a GPU.
// "80-real" is code for 8.0, which runs on 8.0 to 8.9; "100-virtual" is PTX, which all newer GPUs
// compile; "100" is both: CUDA Programming Guide, "Binary compatibility" and "PTX compatibility".
bool has_kernels(const std::string& architectures, const Gpu& gpu) {
  for (const std::string& each : split_text(architectures, ',')) {
    const int built = std::stoi(each);
    if (built > 10 * gpu.major + gpu.minor) continue;
    if (built / 10 == gpu.major || !each.ends_with("-real")) return true;
  }
  return false;
}

std::string describe_architectures(const std::string& architectures) {
  std::vector<std::string> texts;
  for (const std::string& each : split_text(architectures, ',')) {
    const int built = std::stoi(each);
    texts.push_back(
        concat(built / 10, ".", built % 10, each.ends_with("-real") ? "" : " and newer"));
  }
  return join(texts);
}

NoGpu explain(const cuda::GpuSurvey& survey, const std::string& release) {
  if (survey.status == kStubLibrary) {
    return {
        Cause::kBroken,
        "the libcuda.so.1 that was found is the CUDA Toolkit's stub, which has no driver behind "
        "it; remove the toolkit's folder stubs from LD_LIBRARY_PATH, or install the NVIDIA "
        "driver"};
  }
  if (survey.status == kInsufficientDriver && survey.driver_version == 0) return no_driver();
  if (survey.status == kInsufficientDriver) {
    return {Cause::kBroken, describe_old_driver(survey, release)};
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

CudaPlugin::CudaPlugin(const Platform& platform, Driver driver)
    : driver_folder_(platform.driver_folder) {
  const std::string& path = platform.cuda_plugin;
  const std::string file = path.empty() ? find_library(driver_folder_) : path;
  if (path.empty() && driver == Driver::kNeeded) require_driver(driver_folder_);
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

GpuList CudaPlugin::list() const {
  cuda::GpuSurvey survey;
  list_(survey);
  if (survey.status != 0 || survey.gpus.empty()) {
    throw explain(survey, read_driver_release(driver_folder_));
  }
  GpuList list;
  for (const Gpu& gpu : survey.gpus) {
    if (has_kernels(survey.architectures, gpu)) {
      list.gpus.push_back(gpu);
    } else {
      list.left_out.push_back(concat("GPU ", gpu.number, " (", gpu.name,
                                     ") is not used: it has compute capability ", gpu.major, ".",
                                     gpu.minor, ", and the CUDA backend was built for ",
                                     describe_architectures(survey.architectures)));
    }
  }
  if (list.gpus.empty()) throw NoGpu(Cause::kBroken, join(list.left_out, "; "));
  return list;
}

GpuLibraries CudaPlugin::find_libraries(bool with_nccl) const {
  GpuLibraries libraries;
  libraries_(with_nccl, libraries);
  return libraries;
}

std::vector<std::unique_ptr<Backend>> CudaPlugin::open(const DeviceOptions& options) const {
  std::vector<std::unique_ptr<Backend>> backends;
  open_(options, backends);
  return backends;
}

}  // namespace trainer::backend
