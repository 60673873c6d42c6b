// Declares the kernels of ops whose step is one call of enqueue(). Other kernels have a header
// each.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>

#include "base/types.h"
#include "graph/op.h"

namespace trainer::backend::cuda {

// Extents of [n, h, w, c], with 1 for h and w where a value has fewer dimensions.
struct Extents {
  std::int64_t n = 1, h = 1, w = 1, c = 1;

  std::int64_t rows() const { return n * h * w; }
};

// Enqueues the op on `stream`: from `in`, its inputs, to `out`, all row-major in device memory and
// of this float type. `x` holds the extents of the input of the forward op. The kernels of an op
// and its specialisations are in the .cu file of its name. There is no general definition, so that
// a forgotten one does not link.
template <class Op>
void enqueue(const Op& op, std::initializer_list<const void*> in, void* out, DType type,
             const Extents& x, cudaStream_t stream);

}  // namespace trainer::backend::cuda
