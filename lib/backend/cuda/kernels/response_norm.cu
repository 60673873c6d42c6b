#include "backend/cuda/kernels/response_norm.h"
#include "backend/cuda/kernels/rows.cuh"

namespace trainer::backend::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    response_norm_kernel(const float* sums, const float* gamma, T* factors, T* norms,
                         std::int64_t channels, float epsilon) {
  const std::int64_t first = blockIdx.x * channels;
  const float sum = sum_of_row(channels, shared_memory<float>(),
                               [&](std::int64_t i) { return sqrtf(sums[first + i]); });
  const float mean = sum / static_cast<float>(channels) + epsilon;
  for_row(channels, [&](std::int64_t i) {
    const float norm = sqrtf(sums[first + i]);
    assign(norms[first + i], norm);
    assign(factors[first + i], 1 + gamma[i] * norm / mean);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    response_norm_backward_kernel(const T* norms, const float* gamma, const T* dy, T* slopes,
                                  T* products, std::int64_t channels, float epsilon) {
  float* shared = shared_memory<float>();
  const std::int64_t first = blockIdx.x * channels;
  const auto count = static_cast<float>(channels);
  const float sum =
      sum_of_row(channels, shared, [&](std::int64_t i) { return to_float(norms[first + i]); });
  const float mean = sum / count + epsilon;
  const float common = sum_of_row(channels, shared, [&](std::int64_t i) {
    return gamma[i] * to_float(dy[first + i]) * to_float(norms[first + i]) / mean;
  });
  for_row(channels, [&](std::int64_t i) {
    const float norm = to_float(norms[first + i]), gradient = to_float(dy[first + i]);
    assign(products[first + i], gradient * norm / mean);
    const float slope = norm > 0 ? (gamma[i] * gradient - common / count) / (mean * norm) : 0.0f;
    assign(slopes[first + i], slope);
  });
}

}  // namespace

void response_norm(const graph::ResponseNorm& op, const float* sums, const float* gamma,
                   void* factors, void* norms, DType type, std::int64_t samples,
                   std::int64_t channels, cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    launch("response_norm", response_norm_kernel<T>, static_cast<unsigned>(samples),
           row_threads(channels), kRowShared, stream, sums, gamma, static_cast<T*>(factors),
           static_cast<T*>(norms), channels, op.epsilon);
  });
}

void response_norm_backward(const graph::ResponseNormBackward& op, const void* norms,
                            const float* gamma, const void* dy, void* slopes, void* products,
                            DType type, std::int64_t samples, std::int64_t channels,
                            cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    launch("response_norm_backward", response_norm_backward_kernel<T>,
           static_cast<unsigned>(samples), row_threads(channels), kRowShared, stream,
           static_cast<const T*>(norms), gamma, static_cast<const T*>(dy), static_cast<T*>(slopes),
           static_cast<T*>(products), channels, op.epsilon);
  });
}

}  // namespace trainer::backend::cuda
