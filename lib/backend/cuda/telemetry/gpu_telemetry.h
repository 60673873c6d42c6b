// A GPU's load, memory, power, temperature, clocks and energy, read through NVML.
#pragma once

#include <memory>

#include "backend/telemetry.h"

namespace trainer::backend::cuda {

// Of the CUDA runtime's device `device`. Throws DeviceError when NVML is missing or does not know
// the GPU.
std::unique_ptr<Telemetry> make_gpu_telemetry(int device);

}  // namespace trainer::backend::cuda
