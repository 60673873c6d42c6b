#include "backend/cuda/kernels/add.h"
#include "backend/cuda/kernels/float_types.cuh"

namespace trainer::backend::cuda {
namespace {

struct Inputs {
  const void* at[kMaxSummands];
};

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    add_kernel(Inputs inputs, int input_count, T* to, std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float sum[N];
  load<N>(static_cast<const T*>(inputs.at[0]) + i, count - i, sum);
  for (std::size_t k = 1; k < kMaxSummands; ++k) {
    if (static_cast<int>(k) >= input_count) break;
    float v[N];
    load<N>(static_cast<const T*>(inputs.at[k]) + i, count - i, v);
    for (int j = 0; j < N; ++j) sum[j] += v[j];
  }
  store<N>(sum, count - i, to + i);
}

}  // namespace

void add(std::span<const void* const> from, void* to, DType type, std::int64_t count,
         cudaStream_t stream) {
  Inputs inputs = {};
  bool vectors = aligned({to});
  for (std::size_t i = 0; i < from.size(); ++i) {
    inputs.at[i] = from[i];
    vectors = vectors && aligned({from[i]});
  }
  with_vectors(type, vectors, [&]<class T, int N>() {
    launch("add", add_kernel<T, N>, grid_over(count, N), kThreads, 0, stream, inputs,
           static_cast<int>(from.size()), static_cast<T*>(to), count);
  });
}

}  // namespace trainer::backend::cuda
