// The versions of the driver and of the libraries that this process has loaded.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <vector>

#include "backend/cuda/collectives/nccl.h"
#include "backend/cuda/plugin.h"
#include "backend/cuda/runtime.h"
#include "base/error.h"
#include "base/text.h"

namespace trainer::backend::cuda {
namespace {

struct Library {
  const char* name;
  std::size_t version;  // 91900 is 9.19.0
  std::size_t checked;  // the version that was checked together with those of the others
};

// The set that scripts/gpu_check.sh and CI have run with; a difference in the third number of a
// version does not count.
std::vector<Library> find_libraries(bool with_nccl) {
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const auto cuda = static_cast<std::size_t>(runtime);  // 13020 is 13.2
  std::vector<Library> libraries{
      {"CUDA runtime", cuda / 1000 * 10000 + cuda % 1000 * 10, 130000},
      {"cuDNN", cudnnGetVersion(), 91900},
      {"cuBLASLt", cublasLtGetVersion(), 130100},
  };
  if (with_nccl) {
    int version = 0;
    nccl().get_version(&version);
    libraries.push_back({"NCCL", static_cast<std::size_t>(version), 22800});
  }
  return libraries;
}

std::string describe(const Library& library) {
  return concat(library.name, ' ', library.version / 10000, '.', library.version / 100 % 100, '.',
                library.version % 100);
}

std::string identify_gpus() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  std::string text;
  for (int gpu = 0; gpu < count; ++gpu) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
    text += concat(properties.name, ' ');
    for (const char byte : properties.uuid.bytes) text += to_hex(byte & 0xFFu, 2);
    text += '\n';
  }
  return text;
}

}  // namespace
}  // namespace trainer::backend::cuda

void trainer_cuda_libraries(bool with_nccl, trainer::backend::GpuLibraries& libraries) {
  using namespace trainer;
  using namespace trainer::backend::cuda;
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  std::vector<std::string> found, others;
  for (const Library& library : find_libraries(with_nccl)) {
    found.push_back(describe(library));
    const std::size_t checked = library.checked / 100;
    if (library.version / 100 == checked) continue;
    others.push_back(concat(library.name, ' ', checked / 100, '.', checked % 100));
  }
  libraries.gpus = identify_gpus();
  libraries.versions =
      concat(join(found), ", driver of CUDA ", driver / 1000, '.', driver % 1000 / 10);
  if (others.empty()) return;
  libraries.versions += "; this is not the set that was checked, which has " + join(others);
}
