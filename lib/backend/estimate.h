// A GPU that is not here, where the CUDA backend cannot be opened either.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/gpu_model.h"

namespace trainer::backend {

// Compiles graphs to nothing but what they take: activations by the life of each value, without the
// workspaces of cuDNN and of kernels, everything else as the CUDA backend keeps it. Runs nothing;
// variables read as zeros. `reason`: why the CUDA backend cannot be opened, for describe().
std::unique_ptr<Backend> make_estimate(const GpuModel& model, const std::string& reason);

}  // namespace trainer::backend
