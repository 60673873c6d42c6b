// Convolutions run by a plan of lib/backend/cuda and by plain loops.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/plans/convolution.h"

namespace trainer::test {

struct ConvolutionCase {
  std::string name;
  backend::cuda::ConvolutionProblem problem;
};

// All kernels, strides, dilations, groups and paddings of the table, in float32 and forward without
// a bias.
std::vector<ConvolutionCase> convolution_table();

// The worst error of what a plan of the planner writes, in units of the type's precision.
double convolution_error(backend::cuda::ConvolutionPlanner& planner,
                         const backend::cuda::ConvolutionProblem& problem);

}  // namespace trainer::test
