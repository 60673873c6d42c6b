// The faults of a GPU that NVML has counted, for messages.
#pragma once

#include <string>

namespace trainer::backend::cuda {

// Returns "GPU-0a1b2c3d-...", as nvidia-smi -L writes it, which identifies a GPU independently of
// CUDA_VISIBLE_DEVICES; "" if the device cannot be asked. The first answer is kept, because a
// device that has failed answers nothing. Thread-safe.
std::string find_uuid(int device);

// Returns "NVML: 3 uncorrected ECC errors since the driver was loaded, 2 remapped rows"; "" if the
// CUDA runtime's device `device` has no such faults, or NVML cannot be asked.
std::string describe_faults(int device) noexcept;

}  // namespace trainer::backend::cuda
