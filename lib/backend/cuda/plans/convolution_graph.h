// A convolution as an operation graph of cuDNN.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "backend/cuda/plans/convolution.h"
#include "backend/cuda/plans/cudnn.h"

namespace trainer::backend::cuda {

// Every tensor's address is a multiple of this.
inline constexpr std::int64_t kTensorAlignment = 16;

// The identifiers of a graph's tensors, by which addresses are given to a plan.
enum TensorId : std::int64_t { kTensorX = 1, kTensorKernel, kTensorY, kTensorBias };

// The operations after a forward convolution in the graph. cuDNN has precompiled engines for these;
// a relu without a bias is always compiled at run time.
enum class Epilogue { kNone, kBias, kBiasRelu };

// Throws DeviceError naming the problem unless its extents fit together. cuDNN itself accepts wrong
// ones.
void check_problem(const ConvolutionProblem& problem);

// Throws DoesNotFit if x or y has 2^31 elements or more. cuDNN limits a tensor to 2 Giga-elements
// (cudnnSetTensor4dDescriptor() in its API reference); beyond, some of its engines index with 64
// bits and others write outside of the tensor (pytorch#117736, pytorch#152816).
void check_elements(const ConvolutionProblem& problem);

// Returns a text that is unique per problem: "forward bfloat16 x 32x56x56x64 kernel 3x3 to 64 ...".
std::string to_string(const ConvolutionProblem& problem);

// The graph owns its parts and may be moved.
class ConvolutionGraph {
 public:
  ConvolutionGraph(const ConvolutionProblem& problem, Epilogue epilogue, const CudnnDevice& device);
  const Descriptor& descriptor() const { return parts_.back(); }

 private:
  std::deque<Descriptor> parts_;
};

}  // namespace trainer::backend::cuda
