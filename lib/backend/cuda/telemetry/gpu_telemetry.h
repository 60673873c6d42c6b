// A GPU's load, memory, power, temperature, clocks and energy, read through NVML.
#pragma once

#include <memory>

#include "backend/telemetry.h"

namespace trainer::backend::cuda {

// Makes the telemetry of the CUDA runtime's device `device`. Throws DeviceError if NVML is missing
// or does not list the GPU.
std::unique_ptr<Telemetry> make_gpu_telemetry(int device);

}  // namespace trainer::backend::cuda
