// GPUs as devices.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/open.h"

namespace trainer::backend::cuda {

// A backend for each of options.gpus, in their order; a GPU that comes twice has two, with streams
// and memory of their own. Touches no other GPU. With options.planned all are of that model, and no
// GPU is touched. Throws DeviceError.
std::vector<std::unique_ptr<Backend>> open_gpus(const DeviceOptions& options);

}  // namespace trainer::backend::cuda
