#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/preprocess.h"

namespace trainer::backend::cuda {
namespace {

template <class From, class To, int N>
__global__ void __launch_bounds__(kThreads)
    preprocess_kernel(const From* x, To* y, const float* a, const float* b, std::int64_t elements,
                      unsigned channels, bool reverse) {
  const std::int64_t i = first_element<N>();
  if (i >= elements) return;
  auto c = static_cast<unsigned>(i % channels);
  float v[N];
  for (int k = 0; k < N; ++k) {
    v[k] = 0;
    if (i + k >= elements) continue;
    const std::int64_t from = reverse ? i + k - c + (channels - 1 - c) : i + k;
    v[k] = static_cast<float>(x[from]) * a[c] + b[c];
    c = c + 1 == channels ? 0 : c + 1;
  }
  store<N>(v, elements - i, y + i);
}

}  // namespace

void preprocess(const void* x, DType from, void* y, DType to, const float* a, const float* b,
                std::int64_t count, std::int64_t channels, bool reverse_channels,
                cudaStream_t stream) {
  const std::int64_t elements = count * channels;
  with_vectors(to, aligned({y}), [&]<class To, int N>() {
    const auto run = [&]<class From>(const From* pixels) {
      launch("preprocess", preprocess_kernel<From, To, N>, grid_over(elements, N), kThreads, 0,
             stream, pixels, static_cast<To*>(y), a, b, elements, channels, reverse_channels);
    };
    if (from == DType::kUInt8) return run(static_cast<const std::uint8_t*>(x));
    run(static_cast<const float*>(x));
  });
}

}  // namespace trainer::backend::cuda
