#include "backend/cuda/telemetry/gpu_telemetry.h"

#include "backend/cuda/telemetry/gpu_faults.h"
#include "backend/cuda/telemetry/nvml.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

class GpuTelemetry final : public Telemetry {
 public:
  explicit GpuTelemetry(int device) : index_(device), nvml_(nvml::api()) {
    const std::string uuid = find_uuid(device);
    if (const int status = nvml_.handle_by_uuid(uuid.c_str(), &handle_)) {
      throw DeviceError(concat("nvmlDeviceGetHandleByUUID of GPU ", device, " (", uuid,
                               "): ", nvml_.error_string(status)));
    }
  }

  std::string device() const override { return concat("gpu", index_); }

  DeviceReading read() override {
    DeviceReading reading;
    nvml::Utilization rates;
    if (ask(nvml_.utilization, "nvmlDeviceGetUtilizationRates", &rates)) {
      reading.utilization = rates.gpu / 100.0;
      reading.memory_utilization = rates.memory / 100.0;
    }
    nvml::Memory memory;
    if (ask(nvml_.memory, "nvmlDeviceGetMemoryInfo", &memory)) {
      reading.memory_bytes = static_cast<double>(memory.used);
    }
    unsigned value = 0;
    if (ask(nvml_.power, "nvmlDeviceGetPowerUsage", &value)) reading.power_watts = value / 1e3;
    if (ask(nvml_.temperature, "nvmlDeviceGetTemperature", nvml::kTemperatureGpu, &value)) {
      reading.temperature_celsius = value;
    }
    if (ask(nvml_.clock, "nvmlDeviceGetClockInfo", nvml::kClockSm, &value)) {
      reading.sm_clock_mhz = value;
    }
    if (ask(nvml_.clock, "nvmlDeviceGetClockInfo", nvml::kClockMemory, &value)) {
      reading.memory_clock_mhz = value;
    }
    unsigned long long millijoules = 0;
    if (ask(nvml_.energy, "nvmlDeviceGetTotalEnergyConsumption", &millijoules)) {
      reading.energy_joules = static_cast<double>(millijoules) / 1e3;
    }
    return reading;
  }

 private:
  // Returns whether the GPU answered. A query that is not supported or failed once is not an error.
  template <class Function, class... Arguments>
  bool ask(Function* function, const char* name, Arguments... arguments) const {
    if (function == nullptr) return false;
    const int status = function(handle_, arguments...);
    if (status == nvml::kGpuIsLost || status == nvml::kResetRequired ||
        status == nvml::kUninitialized) {
      throw DeviceError(concat("GPU ", index_, ": ", name, ": ", nvml_.error_string(status)));
    }
    return status == nvml::kSuccess;
  }

  int index_;
  const nvml::Api& nvml_;
  nvml::Device handle_ = nullptr;
};

}  // namespace

std::unique_ptr<Telemetry> make_gpu_telemetry(int device) {
  return std::make_unique<GpuTelemetry>(device);
}

}  // namespace trainer::backend::cuda
