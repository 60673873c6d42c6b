// Sliding windows over NHWC images: which pixels an output covers, which outputs cover a pixel.
// Threads take one pixel each: threadIdx.x runs over groups of N channels, threadIdx.y over pixels.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/reduce.cuh"
#include "graph/window.h"

namespace trainer::backend::cuda {

// One axis of a window over an image, 0 being height.
struct WindowAxis {
  int input, output;  // extents
  int size, stride, dilation, pad;

  // The input position of window position k of output o; may lie outside of the image.
  __device__ int position(int o, int k) const { return o * stride - pad + k * dilation; }
  __device__ bool inside(int i) const { return i >= 0 && i < input; }
  // Window positions of output o inside the image.
  __device__ int count(int o) const {
    int result = 0;
    for (int k = 0; k < size; ++k) result += inside(position(o, k)) ? 1 : 0;
    return result;
  }
  // Calls f(o, k) for the outputs whose window position k is input position i; o ascends.
  template <class F>
  __device__ void for_outputs(int i, const F& f) const {
    const int reach = i + pad - (size - 1) * dilation;
    const int first = reach > 0 ? (reach + stride - 1) / stride : 0;
    for (int o = first; o < output && o * stride <= i + pad; ++o) {
      const int distance = i + pad - o * stride;
      const int k = dilation == 1 ? distance : distance / dilation;
      if (k * dilation == distance) f(o, k);
    }
  }
};

// Images [n, h, w, c] and what a window makes of them, [n, oh, ow, ...].
struct Window2 {
  WindowAxis y, x;
};

inline Window2 make_window(const graph::Window& window, std::int64_t h, std::int64_t w) {
  const auto axis = [&window](std::int64_t extent, int i) {
    WindowAxis result;
    result.input = static_cast<int>(extent);
    result.output = static_cast<int>(window.output(extent, i));
    result.size = static_cast<int>(window.size[i]);
    result.stride = static_cast<int>(window.stride[i]);
    result.dilation = static_cast<int>(window.dilation[i]);
    result.pad = static_cast<int>(window.pad_before[i]);
    return result;
  };
  return {axis(h, 0), axis(w, 1)};
}

// A pixel of one of several images of h x w pixels.
struct Pixel {
  std::int64_t image;
  int y, x;
};
__device__ inline Pixel pixel_at(unsigned index, int h, int w) {
  const unsigned row = index / static_cast<unsigned>(w), image = row / static_cast<unsigned>(h);
  Pixel pixel;
  pixel.image = image;
  pixel.y = static_cast<int>(row - image * static_cast<unsigned>(h));
  pixel.x = static_cast<int>(index - row * static_cast<unsigned>(w));
  return pixel;
}

// Tiles of one pixel per thread.
inline RowTiles pixel_tiles(std::int64_t pixels, std::int64_t groups) {
  return row_tiles(pixels, groups, 1, std::int64_t{1} << 40);
}
// The pixel of the running thread.
__device__ inline unsigned tile_pixel() { return blockIdx.x * blockDim.y + threadIdx.y; }

}  // namespace trainer::backend::cuda
