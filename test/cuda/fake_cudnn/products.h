// Sums of products in double: what convolutions and matrix products spend their time in.
#pragma once

#include <cstdint>

namespace fake {

// at[0], at[step], ...
struct Strided {
  const double* at;
  std::int64_t step;
};

// sums[j] += the sum over i < count of factors[i] * rows[i][j], for j < width. Uses AVX2 where the
// processor has it, which rounds once for a product and its sum.
void add_products(double* sums, std::int64_t width, Strided factors, Strided rows,
                  std::int64_t count);

}  // namespace fake
