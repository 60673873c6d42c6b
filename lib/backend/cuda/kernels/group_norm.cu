#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/group_norm.h"
#include "backend/cuda/kernels/reduce.cuh"

namespace trainer::backend::cuda {
namespace {

// Groups of fewer vectors are a warp's, of which a block has several; others are a whole block's.
constexpr std::int64_t kWarpVectors = 8 * kWarp;

// What a group's moments leave for the gradients of gamma and beta.
struct Moments {
  float mean, inverse_std;
};

// The threads that work on one group: threadIdx.x of them, a warp or a block.
struct Team {
  std::int64_t group;  // of outer * groups
  float* shared;       // of over_block()

  __device__ explicit Team(float* memory)
      : group(static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y), shared(memory) {}

  // The sum over the team's threads, for all of them.
  __device__ float sum(float value) const {
    if (blockDim.x == kWarp) return over_warp(value, Sum());
    return over_block(value, 0.0f, shared, Sum());
  }
};

// Returns the index in x of a group's first element.
__device__ inline std::int64_t first_place(const GroupShape& s, std::int64_t group) {
  const std::int64_t sample = group / s.groups;
  return (sample * s.pixels * s.groups + group - sample * s.groups) * s.channels;
}

// Calls f(first element's place in x, its channel) for the vectors of N elements that are this
// thread's.
template <int N, class F>
__device__ inline void for_vectors(const GroupShape& s, std::int64_t group, const F& f) {
  const auto width = static_cast<unsigned>(s.channels / N);  // vectors of a pixel
  const auto count = static_cast<unsigned>(s.pixels) * width;
  const std::int64_t row = s.groups * s.channels;
  const std::int64_t channel = group % s.groups * s.channels;
  const std::int64_t first = first_place(s, group);
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
    const unsigned pixel = i / width, k = (i - pixel * width) * N;
    f(first + pixel * row + k, channel + k);
  }
}

template <int N>
__device__ inline float sum_values(const float (&v)[N]) {
  float sum = 0;
  for (int k = 0; k < N; ++k) sum += v[k];
  return sum;
}

template <int N, class T>
__device__ inline Moments compute_moments(const GroupShape& s, const Team& team, const T* x) {
  const auto count = static_cast<float>(s.pixels * s.channels);
  // The sum is of differences from the first element, since a mean far from zero would cost digits.
  const float shift = to_float(x[first_place(s, team.group)]);
  float sum = 0, square = 0;
  for_vectors<N>(s, team.group, [&](std::int64_t at, std::int64_t) {
    float v[N];
    load<N>(x + at, v);
    for (int k = 0; k < N; ++k) v[k] -= shift;
    sum += sum_values(v);
  });
  const float mean = shift + team.sum(sum) / count;
  for_vectors<N>(s, team.group, [&](std::int64_t at, std::int64_t) {
    float v[N];
    load<N>(x + at, v);
    for (int k = 0; k < N; ++k) v[k] = (v[k] - mean) * (v[k] - mean);
    square += sum_values(v);
  });
  return {mean, 1.0f / sqrtf(team.sum(square) / count + s.epsilon)};
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    group_norm_kernel(GroupShape s, const T* x, const float* gamma, const float* beta, T* y) {
  const Team team(shared_memory<float>());
  if (team.group >= s.outer * s.groups) return;
  const Moments m = compute_moments<N>(s, team, x);
  for_vectors<N>(s, team.group, [&](std::int64_t at, std::int64_t channel) {
    float v[N], scale[N], shift[N];
    load<N>(x + at, v);
    load<N>(gamma + channel, scale);
    load<N>(beta + channel, shift);
    for (int k = 0; k < N; ++k) v[k] = (v[k] - m.mean) * m.inverse_std * scale[k] + shift[k];
    store<N>(v, y + at);
  });
}

// With n = (x - mean) / std and q = dy * gamma: dx = (q - mean(q) - n * mean(q * n)) / std.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    group_norm_backward_kernel(GroupShape s, const T* x, const T* dy, const float* gamma, T* dx,
                               Moments* moments) {
  const Team team(shared_memory<float>());
  if (team.group >= s.outer * s.groups) return;
  const Moments m = compute_moments<N>(s, team, x);
  if (threadIdx.x == 0) moments[team.group] = m;
  const auto load_both = [&](std::int64_t at, std::int64_t channel, float(&n)[N], float(&q)[N]) {
    float scale[N];
    load<N>(x + at, n);
    load<N>(dy + at, q);
    load<N>(gamma + channel, scale);
    for (int k = 0; k < N; ++k) n[k] = (n[k] - m.mean) * m.inverse_std;
    for (int k = 0; k < N; ++k) q[k] *= scale[k];
  };
  float sum_q = 0, sum_qn = 0;
  for_vectors<N>(s, team.group, [&](std::int64_t at, std::int64_t channel) {
    float n[N], q[N];
    load_both(at, channel, n, q);
    sum_q += sum_values(q);
    for (int k = 0; k < N; ++k) n[k] *= q[k];
    sum_qn += sum_values(n);
  });
  const float share = 1.0f / static_cast<float>(s.pixels * s.channels);
  const float mean_q = team.sum(sum_q) * share, mean_qn = team.sum(sum_qn) * share;
  for_vectors<N>(s, team.group, [&](std::int64_t at, std::int64_t channel) {
    float n[N], q[N];
    load_both(at, channel, n, q);
    for (int k = 0; k < N; ++k) q[k] = (q[k] - mean_q - n[k] * mean_qn) * m.inverse_std;
    store<N>(q, dx + at);
  });
}

// partial[2][gridDim.x][c]: the sums of dy * n and of dy.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    group_sums_kernel(GroupShape s, const T* x, const T* dy, const Moments* moments,
                      float* partial) {
  const std::int64_t channel = tile_channel<N>(), c = s.groups * s.channels;
  const std::int64_t rows = s.outer * s.pixels;
  const auto group = static_cast<unsigned>(channel) / static_cast<unsigned>(s.channels);
  float product[N] = {}, sum[N] = {};
  if (channel < c) {
    for (std::int64_t row = tile_row(); row < rows; row += tile_row_step()) {
      const unsigned sample = static_cast<unsigned>(row) / static_cast<unsigned>(s.pixels);
      const Moments m = moments[sample * s.groups + group];
      float v[N], d[N];
      load<N>(x + row * c + channel, v);
      load<N>(dy + row * c + channel, d);
      for (int k = 0; k < N; ++k) product[k] += d[k] * ((v[k] - m.mean) * m.inverse_std);
      for (int k = 0; k < N; ++k) sum[k] += d[k];
    }
  }
  float* shared = shared_memory<float>();
  sum_over_y<N>(product, shared);
  sum_over_y<N>(sum, shared);
  if (threadIdx.y != 0 || channel >= c) return;
  float* to = partial + blockIdx.x * c + channel;
  store<N>(product, to);
  store<N>(sum, to + gridDim.x * c);
}

// Blocks of teams, whose threads take N elements at once.
RowTiles team_tiles(const GroupShape& shape, std::int64_t n) {
  const std::int64_t vectors = shape.pixels * shape.channels / n,
                     teams = shape.outer * shape.groups;
  const bool warps = vectors <= kWarpVectors;
  const std::int64_t y = warps ? std::min<std::int64_t>(kThreads / kWarp, teams) : 1;
  RowTiles tiles;
  tiles.block = dim3(warps ? kWarp : kThreads, static_cast<unsigned>(y));
  tiles.grid = dim3(static_cast<unsigned>(divide_up(teams, y)));
  return tiles;
}

constexpr std::size_t kShared = kWarp * sizeof(float);  // what over_block() needs

std::int64_t moments_bytes(const GroupShape& shape) {
  return shape.outer * shape.groups * static_cast<std::int64_t>(sizeof(Moments));
}

}  // namespace

void group_norm(const GroupShape& shape, const void* x, const float* gamma, const float* beta,
                void* y, DType type, cudaStream_t stream) {
  with_row_vectors(type, shape.channels, aligned({x, gamma, beta, y}), [&]<class T, int N>() {
    const RowTiles tiles = team_tiles(shape, N);
    launch("group_norm", group_norm_kernel<T, N>, tiles.grid, tiles.block, kShared, stream, shape,
           static_cast<const T*>(x), gamma, beta, static_cast<T*>(y));
  });
}

std::int64_t group_norm_scratch(const GroupShape& shape) {
  return divide_up(moments_bytes(shape), 16) * 16 + most_parts(shape.rows(), shape.c()) * 2 *
                                                        shape.c() *
                                                        static_cast<std::int64_t>(sizeof(float));
}

void group_norm_backward(const GroupShape& shape, const void* x, const void* dy, const float* gamma,
                         void* dx, float* dgamma, float* dbeta, DType type, void* scratch,
                         cudaStream_t stream) {
  auto* moments = static_cast<Moments*>(scratch);
  auto* partial = reinterpret_cast<float*>(static_cast<char*>(scratch) +
                                           divide_up(moments_bytes(shape), 16) * 16);
  const std::int64_t rows = shape.rows(), c = shape.c();
  pixel_count(rows);  // whose samples the kernel finds in 32 bits
  with_row_vectors(type, shape.channels, aligned({x, dy, gamma, dx}), [&]<class T, int N>() {
    const RowTiles teams = team_tiles(shape, N), tiles = partial_tiles(rows, c / N);
    launch("group_norm_backward", group_norm_backward_kernel<T, N>, teams.grid, teams.block,
           kShared, stream, shape, static_cast<const T*>(x), static_cast<const T*>(dy), gamma,
           static_cast<T*>(dx), moments);
    launch("group_sums", group_sums_kernel<T, N>, tiles.grid, tiles.block,
           tiles.threads() * N * sizeof(float), stream, shape, static_cast<const T*>(x),
           static_cast<const T*>(dy), moments, partial);
    sum_parts(partial, tiles.grid.x, c, dgamma, stream);
    sum_parts(partial + tiles.grid.x * c, tiles.grid.x, c, dbeta, stream);
  });
}

}  // namespace trainer::backend::cuda
