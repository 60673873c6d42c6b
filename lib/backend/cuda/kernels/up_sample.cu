#include "backend/cuda/kernels/enqueue.h"
#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/window.cuh"

namespace trainer::backend::cuda {
namespace {

// One axis of an image that is enlarged by `factor`.
struct UpAxis {
  int size, factor;
  bool bilinear;

  __device__ int large() const { return size * factor; }
};

// The two pixels that pixel i of the larger image lies between, and the share of the second.
struct Between {
  int before, after;
  float share;
};
__device__ inline Between between(const UpAxis& axis, int i) {
  if (!axis.bilinear) return {i / axis.factor, i / axis.factor, 0};
  // Its centre lies at (2 i + 1 - factor) / (2 factor) of the smaller image.
  const int place = 2 * i + 1 - axis.factor, unit = 2 * axis.factor;
  const int before = place < 0 ? -1 : place / unit;
  const float share = static_cast<float>(place - before * unit) / static_cast<float>(unit);
  const int last = axis.size - 1;
  return {before < 0 ? 0 : before, before < last ? before + 1 : last, share};
}

// Calls f(pixel of the larger image, its share) for those that pixel i was a part of, in order.
template <class F>
__device__ inline void for_parts(const UpAxis& axis, int i, const F& f) {
  const int reach = axis.bilinear ? axis.factor / 2 : 0;
  const int first = axis.bilinear ? (i - 1) * axis.factor + reach : i * axis.factor;
  const int last = (i + 1) * axis.factor + reach;
  for (int o = first < 0 ? 0 : first; o < last && o < axis.large(); ++o) {
    const Between b = between(axis, o);
    f(o, (b.before == i ? 1 - b.share : 0.0f) + (b.after == i ? b.share : 0.0f));
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    up_sample_kernel(UpAxis rows, UpAxis columns, const T* x, T* y, unsigned pixels,
                     std::int64_t c) {
  const unsigned p = tile_pixel();
  const std::int64_t channel = tile_channel<N>();
  if (p >= pixels || channel >= c) return;
  const Pixel o = pixel_at(p, rows.large(), columns.large());
  const Between down = between(rows, o.y), across = between(columns, o.x);
  const auto load_pixel = [&](int row, int column, float(&v)[N]) {
    load<N>(x + ((o.image * rows.size + row) * columns.size + column) * c + channel, v);
  };
  float v[N];
  load_pixel(down.before, across.before, v);
  if (rows.bilinear) {
    float right[N], below[N], corner[N];
    load_pixel(down.before, across.after, right);
    load_pixel(down.after, across.before, below);
    load_pixel(down.after, across.after, corner);
    for (int k = 0; k < N; ++k) {
      const float a = v[k] * (1 - across.share) + right[k] * across.share;
      const float b = below[k] * (1 - across.share) + corner[k] * across.share;
      v[k] = a * (1 - down.share) + b * down.share;
    }
  }
  store<N>(v, y + p * c + channel);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    up_sample_backward_kernel(UpAxis rows, UpAxis columns, const T* dy, T* dx, unsigned pixels,
                              std::int64_t c) {
  const unsigned p = tile_pixel();
  const std::int64_t channel = tile_channel<N>();
  if (p >= pixels || channel >= c) return;
  const Pixel i = pixel_at(p, rows.size, columns.size);
  float sum[N] = {};
  for_parts(rows, i.y, [&](int row, float down) {
    for_parts(columns, i.x, [&](int column, float across) {
      float v[N];
      load<N>(dy + ((i.image * rows.large() + row) * columns.large() + column) * c + channel, v);
      for (int k = 0; k < N; ++k) sum[k] += v[k] * (down * across);
    });
  });
  store<N>(sum, dx + p * c + channel);
}

// Both axes of an image whose extents are `x` before it is enlarged by the op, or by the op whose
// gradient it is.
struct UpAxes {
  UpAxis rows, columns;
};
template <class Op>
UpAxes make_axes(const Op& op, const Extents& x) {
  const auto axis = [&](std::int64_t size, std::int64_t factor) {
    return UpAxis{static_cast<int>(size), static_cast<int>(factor),
                  op.kind == graph::UpSample::Kind::kBilinear};
  };
  return {axis(x.h, op.height), axis(x.w, op.width)};
}

}  // namespace

template <>
void enqueue(const graph::UpSample& op, std::initializer_list<const void*> in, void* out,
             DType type, const Extents& x, cudaStream_t stream) {
  const void* from = *in.begin();
  const std::int64_t pixels = x.rows() * op.height * op.width;
  const UpAxes axes = make_axes(op, x);
  with_row_vectors(type, x.c, aligned({from, out}), [&]<class T, int N>() {
    const RowTiles tiles = pixel_tiles(pixels, x.c / N);
    launch("up_sample", up_sample_kernel<T, N>, tiles.grid, tiles.block, 0, stream, axes.rows,
           axes.columns, static_cast<const T*>(from), static_cast<T*>(out), pixel_count(pixels),
           x.c);
  });
}

template <>
void enqueue(const graph::UpSampleBackward& op, std::initializer_list<const void*> in, void* out,
             DType type, const Extents& x, cudaStream_t stream) {
  const void* dy = *in.begin();
  const std::int64_t pixels = x.rows();
  pixel_count(pixels * op.height * op.width);
  const UpAxes axes = make_axes(op, x);
  with_row_vectors(type, x.c, aligned({dy, out}), [&]<class T, int N>() {
    const RowTiles tiles = pixel_tiles(pixels, x.c / N);
    launch("up_sample_backward", up_sample_backward_kernel<T, N>, tiles.grid, tiles.block, 0,
           stream, axes.rows, axes.columns, static_cast<const T*>(dy), static_cast<T*>(out),
           pixel_count(pixels), x.c);
  });
}

}  // namespace trainer::backend::cuda
