#include "backend/cuda/kernels/enqueue.h"
#include "backend/cuda/kernels/rows.cuh"

namespace trainer::backend::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads) softmax_kernel(const T* x, T* y, std::int64_t n) {
  float* shared = shared_memory<float>();
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  const float maximum = maximum_of_row(x, n, shared);
  const float sum =
      sum_of_row(n, shared, [&](std::int64_t i) { return expf(to_float(x[i]) - maximum); });
  for_row(n, [&](std::int64_t i) { assign(y[i], expf(to_float(x[i]) - maximum) / sum); });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    softmax_backward_kernel(const T* y, const T* dy, T* dx, std::int64_t n) {
  y += blockIdx.x * n;
  dy += blockIdx.x * n;
  dx += blockIdx.x * n;
  const float dot = sum_of_row(n, shared_memory<float>(),
                               [&](std::int64_t i) { return to_float(y[i]) * to_float(dy[i]); });
  for_row(n, [&](std::int64_t i) { assign(dx[i], to_float(y[i]) * (to_float(dy[i]) - dot)); });
}

}  // namespace

template <>
void enqueue(const graph::Softmax&, std::initializer_list<const void*> in, void* out, DType type,
             const Extents& x, cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    launch("softmax", softmax_kernel<T>, static_cast<unsigned>(x.rows()), row_threads(x.c),
           kRowShared, stream, static_cast<const T*>(*in.begin()), static_cast<T*>(out), x.c);
  });
}

template <>
void enqueue(const graph::SoftmaxBackward&, std::initializer_list<const void*> in, void* out,
             DType type, const Extents& x, cudaStream_t stream) {
  const void *y = in.begin()[0], *dy = in.begin()[1];
  with_type(type, [&]<class T>() {
    launch("softmax_backward", softmax_backward_kernel<T>, static_cast<unsigned>(x.rows()),
           row_threads(x.c), kRowShared, stream, static_cast<const T*>(y),
           static_cast<const T*>(dy), static_cast<T*>(out), x.c);
  });
}

}  // namespace trainer::backend::cuda
