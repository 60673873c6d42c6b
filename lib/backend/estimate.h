// A backend for a GPU that this machine does not have, if the CUDA backend cannot be opened either.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/gpu_model.h"

namespace trainer::backend {

// Makes a backend that computes the memory of graphs and runs nothing: activations by the lifetime
// of each value, without the workspaces of cuDNN and of kernels, everything else as the CUDA
// backend keeps it. Variables read as zeros. describe() gives `reason`, why the CUDA backend cannot
// be opened.
std::unique_ptr<Backend> make_estimate(const GpuModel& model, const std::string& reason);

}  // namespace trainer::backend
