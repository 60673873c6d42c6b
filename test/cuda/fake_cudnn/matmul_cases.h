// Matrix products run by a plan of lib/backend/cuda and by plain loops.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/plans/matmul.h"

namespace trainer::test {

// Extents, transposed operands, types, biases and relus.
std::vector<backend::cuda::MatmulProblem> matmul_table();
std::string matmul_name(const backend::cuda::MatmulProblem& problem);

// The worst error of c, in units of its type's precision.
double matmul_error(backend::cuda::MatmulPlanner& planner,
                    const backend::cuda::MatmulProblem& problem);

}  // namespace trainer::test
