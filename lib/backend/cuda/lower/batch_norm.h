// Batch norm in training form, alone and in the groups that contain one.
#pragma once

#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

// y = activation(norm(x) + addend); addend -1: none. `norm` is a node with a BatchNorm.
void lower_norm(const graph::Node& norm, BufferId addend, const graph::Activation& activation,
                const Operand& y, const char* implementation, Lowering& l);

// The buffers of kernels/batch_norm.h's NormGradient, -1 where it has null.
struct NormGradientPlaces {
  BufferId dy = -1, dy2 = -1, y = -1, sum = -1;
  Lowering::Mask mask = {};
  graph::Activation activation;

  // Takes the mask of `id`, the activation's output, or if there is none the output itself.
  void take_output(graph::ValueId id, Lowering& l);
};
// The gradient of `norm`, a node with a BatchNormBackward, from x and this gradient of its output.
void lower_norm_backward(const graph::Node& norm, BufferId x, const NormGradientPlaces& gradient,
                         const char* implementation, Lowering& l);

}  // namespace trainer::backend::cuda
