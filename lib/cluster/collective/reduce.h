// Sums of vectors, with the widest instructions that this processor has. Inside the folder.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trainer::cluster {

// sum[i] = a[i] + b[i]; sum may be a.
void add(float* sum, const float* a, const float* b, std::size_t count);
void add(double* sum, const double* a, const double* b, std::size_t count);
void add(std::int64_t* sum, const std::int64_t* a, const std::int64_t* b, std::size_t count);

}  // namespace trainer::cluster
