// Choices that a config makes and that the graph and the backends carry out.
#pragma once

namespace trainer {

enum class LossKind { kSoftmaxCrossEntropy, kBinaryCrossEntropy, kMeanSquaredError };

// Defines how up-sampling interpolates between the pixels of its input.
enum class UpSampling { kNearest, kBilinear };

// kAuto: the backend chooses for each convolution.
enum class ConvolutionAlgorithm { kAuto, kDirect, kWinograd };

// kAuto: the GPUs when the CUDA backend opens and there is one, else the CPU.
enum class DeviceKind { kAuto, kCpu, kCuda };

}  // namespace trainer
