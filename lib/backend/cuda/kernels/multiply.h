// Products and sums with a factor or bias that is repeated: squeeze-and-excite, layer scale,
// biases. x is [outer][rows][width] and what is repeated [outer][width]: of a sample's channels
// outer is the batch, of a parameter it is 1.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/types.h"

namespace trainer::backend::cuda {

struct RepeatedShape {
  std::int64_t outer, rows, width;
};

// y = a * b, all of `count` elements; y may be a or b.
void multiply(const void* a, const void* b, void* y, DType type, std::int64_t count,
              cudaStream_t stream);
// y = x * factor; the factor is of `factor_type`, which is `type` or float32.
void multiply_repeated(const void* x, const void* factor, DType factor_type, void* y, DType type,
                       const RepeatedShape& shape, cudaStream_t stream);
// y = x + bias.
void add_repeated(const void* x, const float* bias, void* y, DType type, const RepeatedShape& shape,
                  cudaStream_t stream);

// sums[outer][width] = sum over rows of a * b, or of a where b is null, in float32 and in an order
// that depends on the extents alone where the pointers are aligned as whole buffers are.
void sum_products(const void* a, const void* b, void* sums, DType type, const RepeatedShape& shape,
                  cudaStream_t stream);
// Stores the sums of sum_products() in float32.
void sum_products_float32(const void* a, const void* b, float* sums, DType type,
                          const RepeatedShape& shape, cudaStream_t stream);
// Returns the bytes of scratch of sum_products_of_all(), which sums in float32 in two steps.
std::int64_t sum_products_scratch(std::int64_t rows, std::int64_t width);
void sum_products_of_all(const void* a, const void* b, float* sums, DType type, std::int64_t rows,
                         std::int64_t width, void* scratch, cudaStream_t stream);

}  // namespace trainer::backend::cuda
