#include "backend/open.h"

#include "backend/cpu/cpu.h"
#include "base/error.h"

namespace trainer::backend {

std::vector<std::unique_ptr<Backend>> open_backends(const DeviceOptions& options) {
  switch (options.kind) {
    case DeviceOptions::Kind::kAuto:
    case DeviceOptions::Kind::kCpu:
      return cpu::open_replicas(options);
    case DeviceOptions::Kind::kCuda:
      throw DeviceError("parallel.device: this build has no CUDA backend; use device: cpu or auto");
  }
  throw DeviceError("parallel.device: unknown kind of device");
}

std::string device_warning(const DeviceOptions& options) {
  return options.kind == DeviceOptions::Kind::kCuda ? "" : cpu::core_warning(options);
}

}  // namespace trainer::backend
