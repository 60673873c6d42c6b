// graph::Activate and its gradient, alone and after a sum. Types, counts and pointers are as in
// elementwise.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"
#include "graph/ops/activation.h"

namespace trainer::backend::cuda {

void activate(const graph::Activation& activation, const void* x, void* y, DType type,
              std::int64_t count, cudaStream_t stream);
// dx = dy * derivative, from s: see graph::ActivateBackward. dx may be dy.
void activate_backward(const graph::Activation& activation, const void* s, const void* dy, void* dx,
                       DType type, std::int64_t count, cudaStream_t stream);

// y = activation(a + b), and dx = (a + b) * derivative, with the bits of add() (add.h) and the
// function above one after the other. For activations that are fusable and differentiable from
// their output.
void add_activate(const graph::Activation& activation, const void* a, const void* b, void* y,
                  DType type, std::int64_t count, cudaStream_t stream);
void add_activate_backward(const graph::Activation& activation, const void* s, const void* a,
                           const void* b, void* dx, DType type, std::int64_t count,
                           cudaStream_t stream);

}  // namespace trainer::backend::cuda
