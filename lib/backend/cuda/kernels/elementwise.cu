#include <numeric>

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/float_types.cuh"

namespace trainer::backend::cuda {
namespace {

template <class From, class To, int N>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(const From* from, To* to, std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float v[N];
  load<N>(from + i, count - i, v);
  store<N>(v, count - i, to + i);
}

template <int N>
__global__ void __launch_bounds__(kThreads)
    accumulate_kernel(const float* from, float* to, bool assign, std::int64_t count) {
  const std::int64_t i = first_element<N>();
  if (i >= count) return;
  float v[N];
  load<N>(from + i, count - i, v);
  if (!assign) {
    float old[N];
    load<N>(to + i, count - i, old);
    for (int k = 0; k < N; ++k) v[k] = old[k] + v[k];
  }
  store<N>(v, count - i, to + i);
}

// A box of [samples][rows][pixels][units], pitches in units.
struct Box {
  unsigned rows, pixels;
  std::int64_t units;
  std::int64_t from_pitch[3], to_pitch[3];  // sample, row, pixel
};

template <class Unit>
__global__ void __launch_bounds__(kThreads)
    copy_box_kernel(const Unit* from, Unit* to, Box box, unsigned pixels) {
  const unsigned p = blockIdx.x * blockDim.y + threadIdx.y;
  if (p >= pixels) return;
  const unsigned row = p / box.pixels, sample = row / box.rows;
  const std::int64_t place[3] = {sample, row - sample * box.rows, p - row * box.pixels};
  for (int k = 0; k < 3; ++k) {
    from += place[k] * box.from_pitch[k];
    to += place[k] * box.to_pitch[k];
  }
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
       i < box.units; i += step) {
    to[i] = from[i];
  }
}

struct alignas(16) Unit16 {
  std::uint64_t half[2];
};

template <class F>
void with_unit(std::int64_t bytes, const F& f) {
  if (bytes == 16) return f.template operator()<Unit16>();
  if (bytes == 8) return f.template operator()<std::uint64_t>();
  if (bytes == 4) return f.template operator()<std::uint32_t>();
  if (bytes == 2) return f.template operator()<std::uint16_t>();
  f.template operator()<std::uint8_t>();
}

}  // namespace

void convert(const void* from, DType from_type, void* to, DType to_type, std::int64_t count,
             cudaStream_t stream) {
  const bool vectors = aligned({from, to});
  with_type(from_type, [&]<class From>() {
    with_type(to_type, [&]<class To>() {
      constexpr int N = std::max(kVector<From>, kVector<To>);
      launch("convert", vectors ? convert_kernel<From, To, N> : convert_kernel<From, To, 1>,
             grid_over(count, vectors ? N : 1), kThreads, 0, stream, static_cast<const From*>(from),
             static_cast<To*>(to), count);
    });
  });
}

void accumulate(const float* from, float* to, bool assign, std::int64_t count,
                cudaStream_t stream) {
  const bool vectors = aligned({from, to});
  launch("accumulate", vectors ? accumulate_kernel<4> : accumulate_kernel<1>,
         grid_over(count, vectors ? 4 : 1), kThreads, 0, stream, from, to, assign, count);
}

void copy_box(const void* from, const BoxPitch& from_pitch, void* to, const BoxPitch& to_pitch,
              std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t bytes,
              cudaStream_t stream) {
  if (n * h * w * bytes == 0) return;
  // What lies without gaps on both sides is one long pixel.
  if (from_pitch.pixel == bytes && to_pitch.pixel == bytes) {
    bytes *= w;
    w = 1;
    if (from_pitch.row == bytes && to_pitch.row == bytes) {
      bytes *= h;
      h = 1;
    }
  }
  std::int64_t unit = std::gcd(std::int64_t{16}, bytes);
  const auto extents = {from_pitch.sample,
                        from_pitch.row,
                        from_pitch.pixel,
                        to_pitch.sample,
                        to_pitch.row,
                        to_pitch.pixel,
                        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from) % 16),
                        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % 16)};
  for (const std::int64_t extent : extents) unit = std::gcd(unit, extent);
  const Box box = {static_cast<unsigned>(h),
                   static_cast<unsigned>(w),
                   bytes / unit,
                   {from_pitch.sample / unit, from_pitch.row / unit, from_pitch.pixel / unit},
                   {to_pitch.sample / unit, to_pitch.row / unit, to_pitch.pixel / unit}};
  const auto pixels = pixel_count(n * h * w);
  const auto x = static_cast<unsigned>(std::min<std::int64_t>(box.units, kThreads));
  const unsigned y = kThreads / x;
  const dim3 grid((pixels + y - 1) / y, grid_y(divide_up(box.units, x)));
  with_unit(unit, [&]<class Unit>() {
    launch("copy_box", copy_box_kernel<Unit>, grid, dim3(x, y), 0, stream,
           static_cast<const Unit*>(from), static_cast<Unit*>(to), box, pixels);
  });
}

}  // namespace trainer::backend::cuda
