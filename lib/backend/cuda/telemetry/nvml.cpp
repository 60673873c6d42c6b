#include "backend/cuda/telemetry/nvml.h"

#include <dlfcn.h>

#include "base/error.h"

namespace trainer::backend::cuda::nvml {
namespace {

constexpr char kFile[] = "libnvidia-ml.so.1";

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
}

template <class Function>
void require(void* library, const char* name, Function*& function) {
  find(library, name, function);
  if (function == nullptr) {
    throw DeviceError(concat(kFile, " has no function ", name, "; update the NVIDIA driver"));
  }
}

Api load() {
  // Never closed: it is asked to the end of the process.
  void* library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw DeviceError(concat("NVML cannot be opened: ", ::dlerror(),
                             "; it comes with the NVIDIA driver; a container needs the driver "
                             "capability utility (NVIDIA_DRIVER_CAPABILITIES=compute,utility)"));
  }
  Api api;
  require(library, "nvmlInit_v2", api.init);
  require(library, "nvmlShutdown", api.shutdown);
  require(library, "nvmlErrorString", api.error_string);
  require(library, "nvmlDeviceGetHandleByUUID", api.handle_by_uuid);
  find(library, "nvmlDeviceGetUtilizationRates", api.utilization);
  find(library, "nvmlDeviceGetMemoryInfo", api.memory);
  find(library, "nvmlDeviceGetPowerUsage", api.power);
  find(library, "nvmlDeviceGetTemperature", api.temperature);
  find(library, "nvmlDeviceGetClockInfo", api.clock);
  find(library, "nvmlDeviceGetTotalEnergyConsumption", api.energy);
  if (const int status = api.init()) {
    throw DeviceError(concat("nvmlInit_v2: ", api.error_string(status)));
  }
  return api;
}

}  // namespace

const Api& api() {
  static const Api kApi = load();  // tried again by the next call when it throws
  return kApi;
}

}  // namespace trainer::backend::cuda::nvml
