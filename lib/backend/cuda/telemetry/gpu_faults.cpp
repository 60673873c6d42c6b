#include "backend/cuda/telemetry/gpu_faults.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "backend/cuda/telemetry/nvml.h"
#include "base/error.h"
#include "base/text.h"

namespace trainer::backend::cuda {
namespace {

std::string list_faults(int device) {
  const nvml::Api& nvml = nvml::api();
  nvml::Device handle = nullptr;
  int status = nvml.handle_by_uuid(find_uuid(device).c_str(), &handle);
  std::string faults;
  const auto add = [&faults](const std::string& fault) {
    faults += concat(faults.empty() ? "NVML: " : ", ", fault);
  };
  unsigned long long errors = 0;
  if (status == nvml::kSuccess && nvml.ecc_errors != nullptr) {
    status = nvml.ecc_errors(handle, nvml::kUncorrected, nvml::kSinceLoad, &errors);
    if (status == nvml::kSuccess && errors > 0) {
      add(concat(errors, " uncorrected ECC errors since the driver was loaded"));
    }
  }
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (handle != nullptr && nvml.remapped_rows != nullptr &&
      nvml.remapped_rows(handle, &corrected, &uncorrected, &pending, &failed) == nvml::kSuccess) {
    if (corrected + uncorrected > 0) add(concat(corrected + uncorrected, " remapped rows"));
    if (pending > 0) add("a remapping waits for a reset of the GPU");
    if (failed > 0) add("a remapping has failed, so that the GPU has to be replaced");
  }
  if (status == nvml::kGpuIsLost || status == nvml::kResetRequired) add(nvml.error_string(status));
  return faults;
}

}  // namespace

std::string find_uuid(int device) {
  static auto& mutex = *new std::mutex;  // neither is destroyed: threads may outlive main()
  static auto& found = *new std::map<int, std::string>;
  const std::lock_guard lock(mutex);
  std::string& text = found[device];
  cudaDeviceProp properties{};
  if (!text.empty() || cudaGetDeviceProperties(&properties, device) != cudaSuccess) return text;
  text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += to_hex(static_cast<std::uint8_t>(properties.uuid.bytes[i]), 2);
  }
  return text;
}

std::string describe_faults(int device) noexcept {
  try {
    return list_faults(device);
  } catch (const std::exception&) {  // no NVML
    return "";
  }
}

}  // namespace trainer::backend::cuda
