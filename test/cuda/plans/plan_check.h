// Convolutions planned by the real cuDNN for GPUs that are not here.
//
// TRAINER_PLAN_DEVICES lists the GPUs, by the names of lib/backend/gpu_model.h; h100 when it is not
// set.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/plans/convolution.h"
#include "graph/graph.h"

namespace trainer::test {

std::vector<std::string> plan_devices();

// The options of a planner for a GPU model.
backend::cuda::PlannerOptions planner_options(const std::string& device);

// The precisions in which a model can be trained.
struct Precision {
  DType type = DType::kFloat32;
  bool tf32 = false;
};
std::vector<Precision> precisions();

// What the CUDA backend asks cuDNN for when it lowers a graph for a batch, each problem once;
// depthwise convolutions are kernels of its own.
std::vector<backend::cuda::ConvolutionProblem> list_convolutions(const graph::Graph& graph,
                                                                 std::int64_t samples, bool tf32);

enum class Expect {
  kEngine,       // only that there is a plan
  kTensorCores,  // and that it uses tensor cores where the channels are enough for them
};
// Plans a problem for all devices, once in a process; a failure names the device and the problem.
void check_plan(const backend::cuda::ConvolutionProblem& problem, Expect expect);

}  // namespace trainer::test
