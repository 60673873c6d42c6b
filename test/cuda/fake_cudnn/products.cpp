#include "cuda/fake_cudnn/products.h"

namespace fake {
namespace {

// Four rows at a time, so that a sum is read and written once for four products.
[[gnu::always_inline]] inline void add(double* __restrict sums, std::int64_t width, Strided factors,
                                       Strided rows, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const double a = factors.at[i * factors.step], b = factors.at[(i + 1) * factors.step];
    const double c = factors.at[(i + 2) * factors.step], d = factors.at[(i + 3) * factors.step];
    const double* row = rows.at + i * rows.step;
    const double *row_b = row + rows.step, *row_c = row_b + rows.step, *row_d = row_c + rows.step;
    for (std::int64_t j = 0; j < width; ++j) {
      sums[j] += a * row[j] + b * row_b[j] + c * row_c[j] + d * row_d[j];
    }
  }
  for (; i < count; ++i) {
    const double a = factors.at[i * factors.step];
    const double* row = rows.at + i * rows.step;
    for (std::int64_t j = 0; j < width; ++j) sums[j] += a * row[j];
  }
}

using Function = void (*)(double*, std::int64_t, Strided, Strided, std::int64_t);

void add_plain(double* sums, std::int64_t width, Strided factors, Strided rows,
               std::int64_t count) {
  add(sums, width, factors, rows, count);
}

__attribute__((target("avx2,fma"))) void add_avx2(double* sums, std::int64_t width, Strided factors,
                                                  Strided rows, std::int64_t count) {
  add(sums, width, factors, rows, count);
}

}  // namespace

void add_products(double* sums, std::int64_t width, Strided factors, Strided rows,
                  std::int64_t count) {
  static const Function kFunction =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? add_avx2 : add_plain;
  kFunction(sums, width, factors, rows, count);
}

}  // namespace fake
