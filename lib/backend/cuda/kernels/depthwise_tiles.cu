#include "backend/cuda/kernels/activation.cuh"
#include "backend/cuda/kernels/depthwise_tiles.h"
#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/window.cuh"

namespace trainer::backend::cuda {
namespace {

using graph::Activation;

constexpr int kWindow = 3;
constexpr int kPositions = kWindow * kWindow;
// A tile, which one thread computes. A load of two channels of 16 bits takes one register, so that
// many loads can be in progress and several blocks fit on a multiprocessor.
constexpr int kRows = 2, kColumns = 4, kChannels = 2;

// One axis of the tensors that a kernel reads and makes. Tile 0 begins at the made position
// first_made and reads from the position first_read on; either may lie before the image.
struct TileAxis {
  int read, made;  // extents
  int tiles;
  int first_read, first_made;
};
struct Tiles {
  TileAxis y, x;
  int c;
};

// Forward and BackwardData describe how a kernel reads. tap(from, to) is the window position that
// connects the position `from` of what a tile reads with the position `to` of what it makes; there
// is none if it is outside of the window. A tile of `extent` positions reads reach(extent)
// positions and begins step(extent) positions after the one before it. kBlocks is how many blocks a
// multiprocessor runs at least.
template <int kStride>
struct Forward {  // reads x, makes y
  static constexpr int kBlocks = kStride == 1 ? 3 : 2;
  static constexpr int reach(int extent) { return (extent - 1) * kStride + kWindow; }
  static constexpr int step(int extent) { return extent * kStride; }
  static constexpr int tap(int from, int to) { return from - kStride * to; }
  static TileAxis axis(const WindowAxis& window, int extent) {
    return {window.input, window.output, static_cast<int>(divide_up(window.output, extent)),
            -window.pad, 0};
  }
};
template <int kStride>
struct BackwardData {  // reads dy, makes dx
  static constexpr int kBlocks = 3;
  // Outputs before the first one whose window begins in the tile reach into it.
  static constexpr int kBefore = (kWindow - 1) / kStride;
  static constexpr int reach(int extent) { return kBefore + (extent - 1) / kStride + 1; }
  static constexpr int step(int extent) { return extent / kStride; }
  static constexpr int tap(int from, int to) { return to + kStride * (kBefore - from); }
  // Tiles begin where the window of an output does.
  static TileAxis axis(const WindowAxis& window, int extent) {
    const int before = window.pad % kStride;
    return {window.output, window.input, static_cast<int>(divide_up(window.input + before, extent)),
            (window.pad - before) / kStride - kBefore, -before};
  }
};

constexpr bool in_window(int tap) { return tap >= 0 && tap < kWindow; }
__device__ inline bool inside(int position, int extent) {
  return position >= 0 && position < extent;
}
__device__ inline int nearest(int position, int extent) {
  return position < 0 ? 0 : position < extent ? position : extent - 1;
}

// Holds kCount positions of a row from `first` on.
template <int kCount>
struct Columns {
  int first, extent;
  int at[kCount];  // where each is in a row; for one outside of the image, the nearest one inside

  __device__ Columns(int first_column, int columns, int channels)
      : first(first_column), extent(columns) {
    unrolled<kCount>([&](auto i) { at[i] = nearest(first + i, extent) * channels; });
  }
};

// Loads pixels of a row of an image as they are in memory, and zeros outside of the image. It reads
// all of them, so that no load waits for a branch.
template <class T, int kCount>
__device__ inline void load_pixels(const T* image, int row, int rows, int channels,
                                   const Columns<kCount>& columns,
                                   Pack<T, kChannels> (&to)[kCount]) {
  const T* from =
      image + static_cast<std::int64_t>(nearest(row, rows)) * (columns.extent * channels);
  unrolled<kCount>([&](auto i) { to[i] = load_pack<T, kChannels>(from + columns.at[i]); });
  const bool row_inside = inside(row, rows);
  unrolled<kCount>([&](auto i) {
    if (!row_inside || !inside(columns.first + i, columns.extent)) to[i] = {};
  });
}

// Loads the pixels that a tile reads, and calls use(tap, made, pixel) for each pair of one of them
// and a pixel that the tile makes which the window connects. `tap` numbers the window positions and
// `made` the pixels of the tile, both row by row, as std::integral_constant.
template <class Way, class T, class Use>
__device__ inline void for_taps(const Tiles& t, const T* from, const Pixel& tile,
                                std::int64_t channel, const Use& use) {
  const int first_row = t.y.first_read + tile.y * Way::step(kRows);
  const Columns<Way::reach(kColumns)> columns(t.x.first_read + tile.x * Way::step(kColumns),
                                              t.x.read, t.c);
  const T* image = from + tile.image * t.y.read * t.x.read * t.c + channel;
  unrolled<Way::reach(kRows)>([&](auto r) {
    Pack<T, kChannels> v[Way::reach(kColumns)];
    load_pixels(image, first_row + r, t.y.read, t.c, columns, v);
    unrolled<kRows>([&](auto h) {
      constexpr int i = Way::tap(r, h);
      if constexpr (in_window(i)) {
        unrolled<Way::reach(kColumns) * kColumns>([&](auto pair) {
          constexpr int column = pair / kColumns, o = pair % kColumns, j = Way::tap(column, o);
          if constexpr (in_window(j)) {
            use(std::integral_constant<int, i * kWindow + j>{},
                std::integral_constant<int, h * kColumns + o>{}, v[column]);
          }
        });
      }
    });
  });
}

// Computes a tile of kRows x kColumns pixels per thread.
template <class T, class Way>
__global__ void __launch_bounds__(kThreads, Way::kBlocks)
    depthwise_tile_kernel(Tiles t, const T* from, const float* kernel, const float* bias,
                          Activation activation, T* to, unsigned tiles) {
  const unsigned tile = tile_pixel();
  const std::int64_t channel = tile_channel<kChannels>();
  if (tile >= tiles || channel >= t.c) return;
  const Pixel at = pixel_at(tile, t.y.tiles, t.x.tiles);
  float w[kPositions][kChannels];
  unrolled<kPositions>([&](auto i) { load<kChannels>(kernel + i * t.c + channel, w[i]); });
  float sum[kRows * kColumns * kChannels] = {};
  if (bias != nullptr) {
    float b[kChannels];
    load<kChannels>(bias + channel, b);
    unrolled<kRows * kColumns * kChannels>([&](auto i) { sum[i] = b[i % kChannels]; });
  }
  for_taps<Way>(t, from, at, channel, [&](auto tap, auto made, const Pack<T, kChannels>& pixel) {
    for (int k = 0; k < kChannels; ++k) {
      sum[made * kChannels + k] += to_float(pixel.value[k]) * w[tap][k];
    }
  });
  activate(activation, sum);
  const int made_row = t.y.first_made + at.y * kRows,
            made_column = t.x.first_made + at.x * kColumns;
  unrolled<kRows>([&](auto h) {
    if (!inside(made_row + h, t.y.made)) return;
    T* row = to + (at.image * t.y.made + made_row + h) * t.x.made * t.c + channel;
    unrolled<kColumns>([&](auto o) {
      if (!inside(made_column + o, t.x.made)) return;
      float y[kChannels];
      for (int k = 0; k < kChannels; ++k) y[k] = sum[(h * kColumns + o) * kChannels + k];
      store<kChannels>(y, row + (made_column + o) * t.c);
    });
  });
}

// Writes partial[blockIdx.x][kPositions][c], the gradient of all tiles of outputs that the block
// takes.
template <class T, int kStride>
__global__ void __launch_bounds__(kThreads, 2)
    weights_tile_kernel(Tiles t, const T* x, const T* dy, float* partial, unsigned tiles) {
  using Way = Forward<kStride>;
  const std::int64_t channel = tile_channel<kChannels>();
  float sum[kPositions][kChannels] = {};
  if (channel < t.c) {
    for (auto tile = static_cast<unsigned>(tile_row()); tile < tiles;
         tile += static_cast<unsigned>(tile_row_step())) {
      const Pixel at = pixel_at(tile, t.y.tiles, t.x.tiles);
      const int o_row = at.y * kRows;
      const Columns<kColumns> o_columns(at.x * kColumns, t.x.made, t.c);
      const T* outputs = dy + at.image * t.y.made * t.x.made * t.c + channel;
      Pack<T, kChannels> g[kRows][kColumns];
      unrolled<kRows>(
          [&](auto h) { load_pixels(outputs, o_row + h, t.y.made, t.c, o_columns, g[h]); });
      for_taps<Way>(t, x, at, channel, [&](auto tap, auto made, const Pack<T, kChannels>& pixel) {
        for (int k = 0; k < kChannels; ++k) {
          sum[tap][k] +=
              to_float(pixel.value[k]) * to_float(g[made / kColumns][made % kColumns].value[k]);
        }
      });
    }
  }
  unrolled<kPositions>([&](auto i) {
    sum_over_y<kChannels>(sum[i], shared_memory<float>());
    if (threadIdx.y != 0 || channel >= t.c) return;
    float* to = partial + (static_cast<std::int64_t>(blockIdx.x) * kPositions + i) * t.c + channel;
    for (int k = 0; k < kChannels; ++k) to[k] = sum[i][k];
  });
}

template <class Way>
Tiles make_tiles(const DepthwiseShape& shape, int rows) {
  const Window2 window = make_window(shape.window, shape.h, shape.w);
  return {Way::axis(window.y, rows), Way::axis(window.x, kColumns), static_cast<int>(shape.c)};
}
std::int64_t count(const DepthwiseShape& shape, const Tiles& tiles) {
  return shape.n * tiles.y.tiles * tiles.x.tiles;
}

template <class T, class Way>
void launch_tiles(const char* name, const DepthwiseShape& shape, const void* from,
                  const float* kernel, const float* bias, const Activation& activation, void* to,
                  cudaStream_t stream) {
  const Tiles tiles = make_tiles<Way>(shape, kRows);
  const std::int64_t all = count(shape, tiles);
  const RowTiles blocks = pixel_tiles(all, shape.c / kChannels);
  launch(name, depthwise_tile_kernel<T, Way>, blocks.grid, blocks.block, 0, stream, tiles,
         static_cast<const T*>(from), kernel, bias, activation, static_cast<T*>(to),
         pixel_count(all));
}

// Calls f.template operator()<T, kStride>().
template <class F>
void with_stride(DType type, const DepthwiseShape& shape, const F& f) {
  with_type(type, [&]<class T>() {
    if (shape.window.stride[0] == 1) return f.template operator()<T, 1>();
    f.template operator()<T, 2>();
  });
}

Tiles weight_tiles(const DepthwiseShape& shape) {
  return shape.window.stride[0] == 1 ? make_tiles<Forward<1>>(shape, kRows)
                                     : make_tiles<Forward<2>>(shape, kRows);
}
// Each block takes several tiles and writes one row of partial results.
RowTiles weight_blocks(const DepthwiseShape& shape, const Tiles& tiles) {
  return row_tiles(count(shape, tiles), shape.c / kChannels, 4, 1024);
}

}  // namespace

bool has_tiles(const DepthwiseShape& shape, std::initializer_list<const void*> pointers) {
  const graph::Window& window = shape.window;
  const auto both = [](const auto& axes, std::int64_t value) {
    return axes[0] == value && axes[1] == value;
  };
  return both(window.size, kWindow) && both(window.dilation, 1) &&
         (both(window.stride, 1) || both(window.stride, 2)) && shape.multiplier == 1 &&
         shape.c % kChannels == 0 && aligned(pointers);
}

void depthwise_tiles(const DepthwiseShape& shape, const void* x, const float* kernel,
                     const float* bias, const Activation& activation, void* y, DType type,
                     cudaStream_t stream) {
  with_stride(type, shape, [&]<class T, int kStride>() {
    launch_tiles<T, Forward<kStride>>("depthwise", shape, x, kernel, bias, activation, y, stream);
  });
}

void depthwise_tiles_backward_data(const DepthwiseShape& shape, const void* dy, const float* kernel,
                                   void* dx, DType type, cudaStream_t stream) {
  with_stride(type, shape, [&]<class T, int kStride>() {
    launch_tiles<T, BackwardData<kStride>>("depthwise_backward_data", shape, dy, kernel, nullptr,
                                           Activation{}, dx, stream);
  });
}

std::int64_t depthwise_tiles_scratch(const DepthwiseShape& shape) {
  return static_cast<std::int64_t>(weight_blocks(shape, weight_tiles(shape)).grid.x) * kPositions *
         shape.c * static_cast<std::int64_t>(sizeof(float));
}

void depthwise_tiles_backward_weights(const DepthwiseShape& shape, const void* x, const void* dy,
                                      float* dkernel, DType type, void* scratch,
                                      cudaStream_t stream) {
  const Tiles tiles = weight_tiles(shape);
  const RowTiles blocks = weight_blocks(shape, tiles);
  auto* partial = static_cast<float*>(scratch);
  with_stride(type, shape, [&]<class T, int kStride>() {
    launch("depthwise_backward_weights", weights_tile_kernel<T, kStride>, blocks.grid, blocks.block,
           blocks.threads() * kChannels * sizeof(float), stream, tiles, static_cast<const T*>(x),
           static_cast<const T*>(dy), partial, pixel_count(count(shape, tiles)));
  });
  sum_parts(partial, blocks.grid.x, kPositions * shape.c, dkernel, stream);
}

}  // namespace trainer::backend::cuda
