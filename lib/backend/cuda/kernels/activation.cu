#include "backend/cuda/kernels/activation.cuh"
#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/float_types.cuh"

namespace trainer::backend::cuda {
namespace {

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    activate_kernel(graph::Activation activation, const T* x, T* y, std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float v[N];
  load<N>(x + i, count - i, v);
  activate_alone(activation, v);
  store<N>(v, count - i, y + i);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    activate_backward_kernel(graph::Activation activation, const T* s, const T* dy, T* dx,
                             std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float saved[N], g[N];
  load<N>(s + i, count - i, saved);
  load<N>(dy + i, count - i, g);
  activate_backward(activation, saved, g);
  store<N>(g, count - i, dx + i);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    add_activate_kernel(graph::Activation activation, const T* a, const T* b, T* y,
                        std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float v[N], other[N];
  load<N>(a + i, count - i, v);
  load<N>(b + i, count - i, other);
  for (int k = 0; k < N; ++k) v[k] = rounded<T>(v[k] + other[k]);
  activate(activation, v);
  store<N>(v, count - i, y + i);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    add_activate_backward_kernel(graph::Activation activation, const T* s, const T* a, const T* b,
                                 T* dx, std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float saved[N], g[N], other[N];
  load<N>(s + i, count - i, saved);
  load<N>(a + i, count - i, g);
  load<N>(b + i, count - i, other);
  for (int k = 0; k < N; ++k) g[k] = rounded<T>(g[k] + other[k]);
  activate_backward_from_output(activation, saved, g);
  store<N>(g, count - i, dx + i);
}

}  // namespace

void activate(const graph::Activation& activation, const void* x, void* y, DType type,
              std::int64_t count, cudaStream_t stream) {
  with_vectors(type, aligned({x, y}), [&]<class T, int N>() {
    launch("activate", activate_kernel<T, N>, grid_over(count, N), kThreads, 0, stream, activation,
           static_cast<const T*>(x), static_cast<T*>(y), count);
  });
}

void activate_backward(const graph::Activation& activation, const void* s, const void* dy, void* dx,
                       DType type, std::int64_t count, cudaStream_t stream) {
  with_vectors(type, aligned({s, dy, dx}), [&]<class T, int N>() {
    launch("activate_backward", activate_backward_kernel<T, N>, grid_over(count, N), kThreads, 0,
           stream, activation, static_cast<const T*>(s), static_cast<const T*>(dy),
           static_cast<T*>(dx), count);
  });
}

void add_activate(const graph::Activation& activation, const void* a, const void* b, void* y,
                  DType type, std::int64_t count, cudaStream_t stream) {
  with_vectors(type, aligned({a, b, y}), [&]<class T, int N>() {
    launch("add_activate", add_activate_kernel<T, N>, grid_over(count, N), kThreads, 0, stream,
           activation, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y),
           count);
  });
}

void add_activate_backward(const graph::Activation& activation, const void* s, const void* a,
                           const void* b, void* dx, DType type, std::int64_t count,
                           cudaStream_t stream) {
  with_vectors(type, aligned({s, a, b, dx}), [&]<class T, int N>() {
    launch("add_activate_backward", add_activate_backward_kernel<T, N>, grid_over(count, N),
           kThreads, 0, stream, activation, static_cast<const T*>(s), static_cast<const T*>(a),
           static_cast<const T*>(b), static_cast<T*>(dx), count);
  });
}

}  // namespace trainer::backend::cuda
