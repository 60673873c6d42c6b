// Choices that a config makes and that the graph and the backends carry out.
#pragma once

#include "base/spelling.h"

namespace trainer {

enum class LossKind { kSoftmaxCrossEntropy, kBinaryCrossEntropy, kMeanSquaredError };
constexpr auto spellings(LossKind) {
  using enum LossKind;
  return std::to_array<Spelling<LossKind>>({{kSoftmaxCrossEntropy, "softmax_cross_entropy"},
                                            {kBinaryCrossEntropy, "binary_cross_entropy"},
                                            {kMeanSquaredError, "mean_squared_error"}});
}

// Defines how up-sampling interpolates between the pixels of its input.
enum class UpSampling { kNearest, kBilinear };
constexpr auto spellings(UpSampling) {
  using enum UpSampling;
  return std::to_array<Spelling<UpSampling>>({{kNearest, "nearest"}, {kBilinear, "bilinear"}});
}

// kAuto: the backend chooses for each convolution.
enum class ConvolutionAlgorithm { kAuto, kDirect, kWinograd };
constexpr auto spellings(ConvolutionAlgorithm) {
  using enum ConvolutionAlgorithm;
  return std::to_array<Spelling<ConvolutionAlgorithm>>(
      {{kAuto, "auto"}, {kDirect, "direct"}, {kWinograd, "winograd"}});
}

// kAuto: the GPUs when the CUDA backend opens and there is one, else the CPU.
enum class DeviceKind { kAuto, kCpu, kCuda };
constexpr auto spellings(DeviceKind) {
  using enum DeviceKind;
  return std::to_array<Spelling<DeviceKind>>({{kAuto, "auto"}, {kCpu, "cpu"}, {kCuda, "cuda"}});
}

}  // namespace trainer
