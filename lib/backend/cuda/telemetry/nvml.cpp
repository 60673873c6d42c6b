#include "backend/cuda/telemetry/nvml.h"

#include "backend/shared_library.h"
#include "base/error.h"

namespace trainer::backend::cuda::nvml {
namespace {

Api load() {
  const SharedLibrary library({"libnvidia-ml.so.1", "NVML cannot be opened",
                               "it comes with the NVIDIA driver; a container needs the driver "
                               "capability utility (NVIDIA_DRIVER_CAPABILITIES=compute,utility)",
                               "has no function", "update the NVIDIA driver"});
  Api api;
  library.require("nvmlInit_v2", api.init);
  library.require("nvmlShutdown", api.shutdown);
  library.require("nvmlErrorString", api.error_string);
  library.require("nvmlDeviceGetHandleByUUID", api.handle_by_uuid);
  library.find("nvmlDeviceGetUtilizationRates", api.utilization);
  library.find("nvmlDeviceGetMemoryInfo", api.memory);
  library.find("nvmlDeviceGetPowerUsage", api.power);
  library.find("nvmlDeviceGetTemperature", api.temperature);
  library.find("nvmlDeviceGetClockInfo", api.clock);
  library.find("nvmlDeviceGetTotalEnergyConsumption", api.energy);
  library.find("nvmlDeviceGetTotalEccErrors", api.ecc_errors);
  library.find("nvmlDeviceGetRemappedRows", api.remapped_rows);
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
