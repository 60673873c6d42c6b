#include "backend/cuda/kernels/activation.cuh"
#include "backend/cuda/kernels/batch_norm.h"
#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/reduce.cuh"

namespace trainer::backend::cuda {
namespace {

using graph::Activation;

// Count, mean and sum of squared distances from the mean of some numbers.
template <class Real>
struct Spread {
  Real count, mean, square;

  // Chan et al.'s formula for two sets of numbers.
  __device__ void add(const Spread& other) {
    if (other.count == 0) return;
    const Real all = count + other.count, share = other.count / all, delta = other.mean - mean;
    square += other.square + delta * delta * count * share;
    mean += delta * share;
    count = all;
  }
};

// Combines the spreads of the threads of a block over threadIdx.y into those of threadIdx.y 0.
// `shared` holds 2 N + 1 floats per thread.
template <int N>
__device__ inline void combine_over_y(float& count, float (&mean)[N], float (&square)[N],
                                      float* shared) {
  const unsigned threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
  float* counts = shared + 2 * N * threads;
  const auto keep = [&] {
    counts[thread] = count;
    for (int k = 0; k < N; ++k) {
      shared[2 * k * threads + thread] = mean[k];
      shared[(2 * k + 1) * threads + thread] = square[k];
    }
  };
  keep();
  fold_over_y([&](unsigned, unsigned other) {
    Spread<float> all = {};
    for (int k = 0; k < N; ++k) {
      all = {count, mean[k], square[k]};
      all.add(
          {counts[other], shared[2 * k * threads + other], shared[(2 * k + 1) * threads + other]});
      mean[k] = all.mean;
      square[k] = all.square;
    }
    count = all.count;
    keep();
  });
}

// Calls f<R>(row) for the rows of this thread, `row` being the first of R rows that are
// tile_row_step() apart. R is kGroup, and 1 for the rest of the rows. The loads of a group are in
// progress at the same time: on an H200, kernels that wait for one load before the next moved 1 to
// 3.5 of the 4.3 TB/s that a copy moves. Groups of 2 rows are fastest for moments and outputs, 3
// for the sums of the gradient, 4 for its last pass. These groups, depthwise_tiles.h and the loads
// of for_parts() made MobileNetV2 26 % and ResNet50 8 % faster (from 8,385 to 10,600 and from 6,690
// to 7,230 images/second at batch 256 in bfloat16).
template <int kGroup, class F>
__device__ inline void for_row_groups(std::int64_t rows, const F& f) {
  std::int64_t row = tile_row();
  for (; row + (kGroup - 1) * tile_row_step() < rows; row += kGroup * tile_row_step()) {
    f.template operator()<kGroup>(row);
  }
  for (; row < rows; row += tile_row_step()) f.template operator()<1>(row);
}

// Finds the elements of a channel in rows that are tile_row_step() apart.
struct Elements {
  std::int64_t first, step;
  __device__ std::int64_t operator()(int i) const { return first + i * step; }
};
__device__ inline Elements elements_at(std::int64_t row, std::int64_t c, std::int64_t channel) {
  return {row * c + channel, tile_row_step() * c};
}
// Loads R rows. No load waits for the use of another one.
template <int R, int N, class T>
__device__ inline void load_group(const T* from, const Elements& at, float (&to)[R][N]) {
  unrolled<R>([&](auto i) { load<N>(from + at(i), to[i]); });
}
template <int R, int N, class T>
__device__ inline void store_group(const float (&from)[R][N], const Elements& at, T* to) {
  unrolled<R>([&](auto i) { store<N>(from[i], to + at(i)); });
}

// partial[blockIdx.x][3][c]. Groups of rows are combined by Chan et al.'s formula.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    moments_kernel(const T* x, std::int64_t rows, std::int64_t c, float* partial) {
  const std::int64_t channel = tile_channel<N>();
  float count = 0, mean[N] = {}, square[N] = {};
  if (channel < c) {
    for_row_groups<2>(rows, [&]<int R>(std::int64_t row) {
      float v[R][N];
      load_group(x, elements_at(row, c, channel), v);
      const float before = count, share = R / (count + R);
      count += R;
      for (int k = 0; k < N; ++k) {
        float sum = 0, distance = 0;
        for (int i = 0; i < R; ++i) sum += v[i][k];
        const float row_mean = sum * (1.0f / R), delta = row_mean - mean[k];
        for (int i = 0; i < R; ++i) distance += (v[i][k] - row_mean) * (v[i][k] - row_mean);
        square[k] += distance + delta * delta * before * share;
        mean[k] += delta * share;
      }
    });
  }
  combine_over_y<N>(count, mean, square, shared_memory<float>());
  if (threadIdx.y != 0 || channel >= c) return;
  float* to = partial + blockIdx.x * 3 * c + channel;
  for (int k = 0; k < N; ++k) {
    to[k] = count;
    to[c + k] = mean[k];
    to[2 * c + k] = square[k];
  }
}

// Writes the statistics of a channel. In double, so that the number of ranks costs no digits.
struct WriteStatistics {
  float epsilon;
  float *mean, *inverse_std;

  __device__ void operator()(std::int64_t channel, const Spread<double>& all) const {
    const double variance = all.square / all.count;
    mean[channel] = static_cast<float>(all.mean);
    inverse_std[channel] = static_cast<float>(
        1.0 / sqrt((variance < 0 ? 0.0 : variance) + static_cast<double>(epsilon)));
  }
};

// Writes moments[3][c].
struct WriteMoments {
  float* moments;
  std::int64_t c;

  __device__ void operator()(std::int64_t channel, const Spread<double>& all) const {
    moments[channel] = static_cast<float>(all.count);
    moments[c + channel] = static_cast<float>(all.mean);
    moments[2 * c + channel] = static_cast<float>(all.square);
  }
};

__device__ inline Spread<double> to_double(const Spread<float>& spread) {
  return {static_cast<double>(spread.count), static_cast<double>(spread.mean),
          static_cast<double>(spread.square)};
}

// Calls write(channel, the spread of all parts) for each channel.
template <class Write>
__global__ void __launch_bounds__(1024)
    combine_parts_kernel(const float* partial, std::int64_t parts, std::int64_t c, Write write) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  Spread<float> all = {};
  if (channel < c) {
    for_parts(
        parts,
        [&](std::int64_t part) {
          const float* from = partial + part * 3 * c + channel;
          return Spread<float>{from[0], from[c], from[2 * c]};
        },
        [&](const Spread<float>& other) { all.add(other); });
  }
  float mean[1] = {all.mean}, square[1] = {all.square};
  combine_over_y<1>(all.count, mean, square, shared_memory<float>());
  if (threadIdx.y != 0 || channel >= c) return;
  write(channel, to_double(Spread<float>{all.count, mean[0], square[0]}));
}

__global__ void __launch_bounds__(kThreads)
    combine_moments_kernel(const float* moments, std::int64_t ranks, std::int64_t c,
                           WriteStatistics write) {
  const std::int64_t channel = first_element<1>();
  if (channel >= c) return;
  Spread<double> all = {};
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const float* from = moments + rank * 3 * c + channel;
    all.add(to_double({from[0], from[c], from[2 * c]}));
  }
  write(channel, all);
}

// Writes the bytes of a mask for rows of y, in which each value is rounded to T first.
template <class T, int R, int N>
__device__ inline void store_mask(const Activation& activation, float (&y)[R][N],
                                  const Elements& at, std::uint8_t* mask) {
  unrolled<R>([&](auto i) {
    float slope[N];
    for (int k = 0; k < N; ++k) y[i][k] = rounded<T>(y[i][k]), slope[k] = 1;
    activate_backward_from_output(activation, y[i], slope);
    unsigned bits = 0;
    for (int k = 0; k < N; ++k) bits |= static_cast<unsigned>(slope[k] != 0) << k;
    mask[at(i) / N] = static_cast<std::uint8_t>(bits);
  });
}

// Loads for each bit of a mask a number at which the activation has the derivative of the bit.
template <int R, int N>
__device__ inline void load_mask(const std::uint8_t* mask, const Elements& at, float (&y)[R][N]) {
  unrolled<R>([&](auto i) {
    const unsigned bits = mask[at(i) / N];
    for (int k = 0; k < N; ++k) y[i][k] = static_cast<float>(bits >> k & 1);
  });
}

// The mean is taken off first: channels that hardly vary would lose their digits otherwise. Each
// sum with an addend is rounded to T as it would be in memory.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    normalize_kernel(const T* x, const T* addend, const float* gamma, const float* beta,
                     const float* mean, const float* inverse_std, Activation activation, T* y,
                     std::uint8_t* mask, std::int64_t rows, std::int64_t c) {
  const std::int64_t channel = tile_channel<N>();
  if (channel >= c) return;
  float m[N], a[N], b[N], is[N];
  load<N>(mean + channel, m);
  load<N>(gamma + channel, a);
  load<N>(inverse_std + channel, is);
  load<N>(beta + channel, b);
  for (int k = 0; k < N; ++k) a[k] *= is[k];
  for_row_groups<N == 1 ? 1 : 2>(rows, [&]<int R>(std::int64_t row) {
    const Elements at = elements_at(row, c, channel);
    float v[R][N];
    load_group(x, at, v);
    unrolled<R>([&](auto i) {
      for (int k = 0; k < N; ++k) v[i][k] = (v[i][k] - m[k]) * a[k] + b[k];
    });
    if (addend != nullptr) {
      float other[R][N];
      load_group(addend, at, other);
      unrolled<R>([&](auto i) {
        for (int k = 0; k < N; ++k) v[i][k] = rounded<T>(rounded<T>(v[i][k]) + other[i][k]);
      });
    }
    unrolled<R>([&](auto i) { activate(activation, v[i]); });
    if (mask != nullptr) store_mask<T>(activation, v, at, mask);
    store_group(v, at, y);
  });
}

// What the gradient of an output is made of, and where it is kept.
template <class T>
struct Gradient {
  const T* dy;
  const T* dy2;              // added to dy; null: nothing
  const T* y;                // null: no activation, or a mask
  const std::uint8_t* mask;  // the mask of y; null: there is none
  T* sum;                    // null: it is not kept
};

// g = (dy + dy2) * activation'(y), rounded to T where it would be in memory. Computing y from x
// instead of loading it was slower: ResNet50 fell from 7,230 to 6,360 images/second, since the
// kernels then need 164 registers.
template <int R, int N, class T>
__device__ inline void load_gradient(const Gradient<T>& from, const Activation& activation,
                                     const Elements& at, float (&g)[R][N]) {
  load_group(from.dy, at, g);
  if (from.dy2 != nullptr) {
    float other[R][N];
    load_group(from.dy2, at, other);
    unrolled<R>([&](auto i) {
      for (int k = 0; k < N; ++k) g[i][k] = rounded<T>(g[i][k] + other[i][k]);
    });
  }
  if (from.y != nullptr || from.mask != nullptr) {
    float saved[R][N];
    if (from.mask != nullptr) {
      load_mask(from.mask, at, saved);
    } else {
      load_group(from.y, at, saved);
    }
    activate_backward_from_output(activation, saved, g);
  }
  if (from.sum == nullptr) return;
  unrolled<R>([&](auto i) {
    for (int k = 0; k < N; ++k) g[i][k] = rounded<T>(g[i][k]);
  });
  store_group(g, at, from.sum);
}

// partial[blockIdx.x][2][c].
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    backward_sums_kernel(const T* x, Gradient<T> gradient, const float* mean,
                         const float* inverse_std, Activation activation, std::int64_t rows,
                         std::int64_t c, float* partial) {
  const std::int64_t channel = tile_channel<N>();
  float sum[N] = {}, product[N] = {};
  if (channel < c) {
    float m[N], is[N];
    load<N>(mean + channel, m);
    load<N>(inverse_std + channel, is);
    for_row_groups<3>(rows, [&]<int R>(std::int64_t row) {
      const Elements at = elements_at(row, c, channel);
      float g[R][N], v[R][N];
      load_group(x, at, v);
      load_gradient(gradient, activation, at, g);
      unrolled<R>([&](auto i) {
        for (int k = 0; k < N; ++k) {
          sum[k] += g[i][k];
          product[k] += g[i][k] * ((v[i][k] - m[k]) * is[k]);
        }
      });
    });
  }
  float* shared = shared_memory<float>();
  sum_over_y<N>(sum, shared);
  sum_over_y<N>(product, shared);
  if (threadIdx.y != 0 || channel >= c) return;
  float* to = partial + blockIdx.x * 2 * c + channel;
  for (int k = 0; k < N; ++k) {
    to[k] = sum[k];
    to[c + k] = product[k];
  }
}

// Sums the parts[parts][2][c] of backward_sums_kernel. Each column keeps the order of sum_parts().
__global__ void __launch_bounds__(1024)
    finish_sums_kernel(const float* partial, std::int64_t parts, std::int64_t rows, std::int64_t c,
                       NormSums to) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  float sum[1] = {};
  if (column < 2 * c) {
    for_parts(
        parts, [&](std::int64_t part) { return partial[part * 2 * c + column]; },
        [&](float value) { sum[0] += value; });
  }
  sum_over_y<1>(sum, shared_memory<float>());
  if (threadIdx.y != 0 || column >= 2 * c) return;
  const float value = to.counted ? sum[0] : 0.0f;
  (column < c ? to.dbeta[column] : to.dgamma[column - c]) = value;
  if (to.all == nullptr) return;
  to.all[column] = value;
  if (column == 0) to.all[2 * c] = to.counted ? static_cast<float>(rows) : 0.0f;
}

// dx = p * g + (q * (x - mean) + r). Without sums, as for the inference form, dx = p * g.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const T* x, Gradient<T> gradient, const float* gamma, const float* mean,
                    const float* inverse_std, const float* sums, Activation activation, T* dx,
                    std::int64_t rows, std::int64_t c) {
  const std::int64_t channel = tile_channel<N>();
  if (channel >= c) return;
  float p[N], q[N], r[N] = {}, m[N] = {};
  load<N>(gamma + channel, p);
  load<N>(inverse_std + channel, q);
  for (int k = 0; k < N; ++k) p[k] *= q[k];
  if (sums != nullptr) {
    float sum[N], product[N];
    load<N>(mean + channel, m);
    load<N>(sums + channel, sum);
    load<N>(sums + c + channel, product);
    const float share = 1.0f / sums[2 * c];
    for (int k = 0; k < N; ++k) {
      q[k] = -p[k] * q[k] * (product[k] * share);
      r[k] = -p[k] * (sum[k] * share);
    }
  }
  for_row_groups<4>(rows, [&]<int R>(std::int64_t row) {
    const Elements at = elements_at(row, c, channel);
    float g[R][N];
    if (sums == nullptr) {
      load_gradient(gradient, activation, at, g);
      unrolled<R>([&](auto i) {
        for (int k = 0; k < N; ++k) g[i][k] *= p[k];
      });
    } else {
      float v[R][N];
      load_group(x, at, v);
      load_gradient(gradient, activation, at, g);
      unrolled<R>([&](auto i) {
        for (int k = 0; k < N; ++k) g[i][k] = p[k] * g[i][k] + (q[k] * (v[i][k] - m[k]) + r[k]);
      });
    }
    store_group(g, at, dx);
  });
}

__global__ void __launch_bounds__(kThreads)
    inverse_std_kernel(const float* variance, float epsilon, float* inverse_std, std::int64_t c) {
  const std::int64_t i = first_element<1>();
  if (i < c) inverse_std[i] = 1.0f / sqrtf(variance[i] + epsilon);
}

// An argument of a kernel, which may have 4 KiB.
constexpr int kMaxStatistics = 80;
struct StatisticsList {
  MovingStatistics layers[kMaxStatistics];
};

// blockIdx.y counts the layers.
__global__ void __launch_bounds__(kThreads)
    update_statistics_kernel(const StatisticsList list, StepState* state) {
  if (state->all_finite == 0) return;
  const MovingStatistics& layer = list.layers[blockIdx.y];
  const std::int64_t i = first_element<1>();
  if (i == 0) state->moved = 1;
  if (i >= layer.c) return;
  const float momentum = layer.momentum, inverse_std = layer.batch_inverse_std[i];
  const float variance = fmaxf(1.0f / (inverse_std * inverse_std) - layer.epsilon, 0.0f);
  layer.mean[i] = layer.mean[i] * momentum + layer.batch_mean[i] * (1 - momentum);
  layer.variance[i] = layer.variance[i] * momentum + variance * (1 - momentum);
}

struct Folding {
  const float *gamma, *beta, *mean, *variance;
  double epsilon;

  __device__ double scale(std::int64_t k) const {
    return static_cast<double>(gamma[k]) / sqrt(static_cast<double>(variance[k]) + epsilon);
  }
};

__global__ void __launch_bounds__(kThreads)
    fold_weights_kernel(const float* kernel, Folding folding, float* folded, std::int64_t elements,
                        std::int64_t c) {
  const std::int64_t i = first_element<1>();
  if (i < elements) {
    folded[i] = static_cast<float>(static_cast<double>(kernel[i]) * folding.scale(i % c));
  }
}

__global__ void __launch_bounds__(kThreads)
    fold_bias_kernel(const float* bias, Folding folding, float* folded, std::int64_t c) {
  const std::int64_t k = first_element<1>();
  if (k >= c) return;
  const double b = bias != nullptr ? static_cast<double>(bias[k]) : 0.0;
  folded[k] = static_cast<float>((b - static_cast<double>(folding.mean[k])) * folding.scale(k) +
                                 static_cast<double>(folding.beta[k]));
}

// Tiles of passes that read the parameters of a channel once for several rows.
RowTiles pass_tiles(std::int64_t rows, std::int64_t groups) {
  return row_tiles(rows, groups, 8, std::int64_t{1} << 40);
}

template <class Write>
void find_moments(const void* x, DType type, std::int64_t rows, std::int64_t c, const Write& write,
                  void* scratch, cudaStream_t stream) {
  auto* partial = static_cast<float*>(scratch);
  std::int64_t parts = 0;
  with_row_vectors(type, c, aligned({x}), [&]<class T, int N>() {
    const RowTiles tiles = partial_tiles(rows, c / N);
    parts = tiles.grid.x;
    launch("channel_moments", moments_kernel<T, N>, tiles.grid, tiles.block,
           tiles.threads() * (2 * N + 1) * sizeof(float), stream, static_cast<const T*>(x), rows, c,
           partial);
  });
  const dim3 block(kWarp, static_cast<unsigned>(std::clamp<std::int64_t>(parts, 1, 32)));
  launch("combine_parts", combine_parts_kernel<Write>, static_cast<unsigned>(divide_up(c, kWarp)),
         block, std::size_t{block.x} * block.y * 3 * sizeof(float), stream, partial, parts, c,
         write);
}

// A byte of a mask belongs to one thread, so that the kernels of both passes must have the same
// vectors.
template <class T, int N>
void check_mask(const std::uint8_t* mask, std::int64_t c) {
  if (mask == nullptr || N == kVector<T> || c % kVector<T> != 0) return;
  throw std::logic_error("batch norm: a mask needs aligned operands");
}

template <class T, int N>
Gradient<T> make_gradient(const NormGradient& from, const Activation& activation, std::int64_t c) {
  check_mask<T, N>(from.mask, c);
  return {static_cast<const T*>(from.dy), static_cast<const T*>(from.dy2),
          needs_saved(activation) ? static_cast<const T*>(from.y) : nullptr, from.mask,
          static_cast<T*>(from.sum)};
}

}  // namespace

std::int64_t mask_bytes(DType type, std::int64_t rows, std::int64_t c) {
  std::int64_t bytes = 0;
  with_row_vectors(type, c, true, [&]<class T, int N>() { bytes = rows * c / N; });
  return bytes;
}

std::int64_t batch_norm_scratch(std::int64_t rows, std::int64_t c) {
  return most_parts(rows, c) * 3 * c * static_cast<std::int64_t>(sizeof(float));
}

void channel_moments(const void* x, DType type, std::int64_t rows, std::int64_t c, float* moments,
                     void* scratch, cudaStream_t stream) {
  find_moments(x, type, rows, c, WriteMoments{moments, c}, scratch, stream);
}

void channel_statistics(const void* x, DType type, std::int64_t rows, std::int64_t c, float epsilon,
                        float* mean, float* inverse_std, void* scratch, cudaStream_t stream) {
  find_moments(x, type, rows, c, WriteStatistics{epsilon, mean, inverse_std}, scratch, stream);
}

void combine_moments(const float* moments, std::int64_t ranks, std::int64_t c, float epsilon,
                     float* mean, float* inverse_std, cudaStream_t stream) {
  launch("combine_moments", combine_moments_kernel, grid_over(c, 1), kThreads, 0, stream, moments,
         ranks, c, WriteStatistics{epsilon, mean, inverse_std});
}

void normalize(const void* x, const float* gamma, const float* beta, const float* mean,
               const float* inverse_std, const Activation& activation, void* y, DType type,
               std::int64_t rows, std::int64_t c, cudaStream_t stream) {
  normalize_add(x, nullptr, gamma, beta, mean, inverse_std, activation, y, nullptr, type, rows, c,
                stream);
}

void normalize_add(const void* x, const void* addend, const float* gamma, const float* beta,
                   const float* mean, const float* inverse_std, const Activation& activation,
                   void* y, std::uint8_t* mask, DType type, std::int64_t rows, std::int64_t c,
                   cudaStream_t stream) {
  const bool vectors = aligned({x, addend, gamma, beta, mean, inverse_std, y});
  with_row_vectors(type, c, vectors, [&]<class T, int N>() {
    check_mask<T, N>(mask, c);
    const RowTiles tiles = pass_tiles(rows, c / N);
    launch("normalize", normalize_kernel<T, N>, tiles.grid, tiles.block, 0, stream,
           static_cast<const T*>(x), static_cast<const T*>(addend), gamma, beta, mean, inverse_std,
           activation, static_cast<T*>(y), mask, rows, c);
  });
}

void norm_backward_sums(const void* x, const NormGradient& gradient, const float* mean,
                        const float* inverse_std, const Activation& activation, DType type,
                        std::int64_t rows, std::int64_t c, const NormSums& to, void* scratch,
                        cudaStream_t stream) {
  auto* partial = static_cast<float*>(scratch);
  std::int64_t parts = 0;
  const bool vectors =
      aligned({x, gradient.dy, gradient.dy2, gradient.y, gradient.sum, mean, inverse_std});
  with_row_vectors(type, c, vectors, [&]<class T, int N>() {
    const RowTiles tiles = partial_tiles(rows, c / N);
    launch("norm_backward_sums", backward_sums_kernel<T, N>, tiles.grid, tiles.block,
           tiles.threads() * N * sizeof(float), stream, static_cast<const T*>(x),
           make_gradient<T, N>(gradient, activation, c), mean, inverse_std, activation, rows, c,
           partial);
    parts = tiles.grid.x;
  });
  const dim3 block(kWarp, static_cast<unsigned>(std::clamp<std::int64_t>(parts, 1, 32)));
  launch("finish_sums", finish_sums_kernel, static_cast<unsigned>(divide_up(2 * c, kWarp)), block,
         std::size_t{block.x} * block.y * sizeof(float), stream, partial, parts, rows, c, to);
}

void norm_backward(const void* x, const NormGradient& gradient, const float* gamma,
                   const float* mean, const float* inverse_std, const float* sums,
                   const Activation& activation, void* dx, DType type, std::int64_t rows,
                   std::int64_t c, cudaStream_t stream) {
  const bool vectors = aligned({x, gradient.dy, gradient.y, gamma, mean, inverse_std, sums, dx});
  with_row_vectors(type, c, vectors, [&]<class T, int N>() {
    const RowTiles tiles = pass_tiles(rows, c / N);
    launch("norm_backward", backward_kernel<T, N>, tiles.grid, tiles.block, 0, stream,
           static_cast<const T*>(x), make_gradient<T, N>(gradient, activation, c), gamma, mean,
           inverse_std, sums, activation, static_cast<T*>(dx), rows, c);
  });
}

void compute_inverse_std(const float* variance, float epsilon, float* inverse_std, std::int64_t c,
                         cudaStream_t stream) {
  launch("compute_inverse_std", inverse_std_kernel, grid_over(c, 1), kThreads, 0, stream, variance,
         epsilon, inverse_std, c);
}

void norm_inference_backward(const void* dy, const void* y, const float* gamma,
                             const float* inverse_std, const Activation& activation, void* dx,
                             DType type, std::int64_t rows, std::int64_t c, cudaStream_t stream) {
  norm_backward(nullptr, {dy, nullptr, y}, gamma, nullptr, inverse_std, nullptr, activation, dx,
                type, rows, c, stream);
}

void update_statistics(std::span<const MovingStatistics> layers, StepState* state,
                       cudaStream_t stream) {
  for (std::size_t first = 0; first < layers.size(); first += kMaxStatistics) {
    StatisticsList list = {};
    const auto some =
        layers.subspan(first, std::min<std::size_t>(layers.size() - first, kMaxStatistics));
    std::copy(some.begin(), some.end(), list.layers);
    std::int64_t max_channels = 0;
    for (const MovingStatistics& layer : some)
      max_channels = std::max<std::int64_t>(max_channels, layer.c);
    launch("update_statistics", update_statistics_kernel,
           dim3(grid_over(max_channels, 1).x, static_cast<unsigned>(some.size())), kThreads, 0,
           stream, list, state);
  }
}

void fold_batch_norm(const float* kernel, const float* bias, const float* gamma, const float* beta,
                     const float* mean, const float* variance, float epsilon, float* folded_kernel,
                     float* folded_bias, std::int64_t elements, std::int64_t c,
                     cudaStream_t stream) {
  const Folding folding = {gamma, beta, mean, variance, static_cast<double>(epsilon)};
  launch("fold_batch_norm", fold_weights_kernel, grid_over(elements, 1), kThreads, 0, stream,
         kernel, folding, folded_kernel, elements, c);
  launch("fold_batch_norm", fold_bias_kernel, grid_over(c, 1), kThreads, 0, stream, bias, folding,
         folded_bias, c);
}

}  // namespace trainer::backend::cuda
