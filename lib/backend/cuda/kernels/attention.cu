// A block takes a tile of tokens of one head of one sample, and walks over all tiles of the tokens
// that they meet. The tiles are float32 in shared memory; sums are in the order of the tokens.
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/float_types.cuh"

namespace trainer::backend::cuda {
namespace {

constexpr unsigned kSide = 16;  // threads of a block along each axis
static_assert(kSide * kSide == kThreads);

// A matrix in shared memory whose rows start in different banks.
struct Tile {
  float* at;
  int row;

  __device__ float& operator()(int i, int j) const { return at[i * row + j]; }
};
constexpr int odd(std::int64_t columns) { return static_cast<int>(columns | 1); }

// Shared memory that is given out piece by piece.
class Shared {
 public:
  __device__ Shared(int tokens, std::int64_t channels)
      : next_(shared_memory<float>()), tokens_(tokens), channels_(channels) {}
  __device__ Tile tokens() { return {take(tokens_ * odd(channels_)), odd(channels_)}; }
  __device__ Tile scores() { return {take(tokens_ * odd(tokens_)), odd(tokens_)}; }
  __device__ float* numbers() { return take(tokens_); }

 private:
  __device__ float* take(int count) {
    float* taken = next_;
    next_ += count;
    return taken;
  }

  float* next_;
  int tokens_;
  std::int64_t channels_;
};

// The head of a sample that a block works on, and the first token of its own tile.
struct Block {
  AttentionShape s;
  int tile;  // tokens of a tile
  std::int64_t own, head, sample;

  __device__ Block(const AttentionShape& shape, int tokens) : s(shape), tile(tokens) {
    const std::int64_t tiles = (s.tokens + tile - 1) / tile, all = blockIdx.x / tiles;
    own = blockIdx.x % tiles * tile;
    head = all % s.heads;
    sample = all / s.heads;
  }
  __device__ std::int64_t y(std::int64_t token) const {
    return ((sample * s.tokens + token) * s.heads + head) * s.channels;
  }
  // `part` is 0 for queries, 1 for keys and 2 for values.
  __device__ std::int64_t qkv(int part, std::int64_t token) const {
    return (((sample * s.tokens + token) * 3 + part) * s.heads + head) * s.channels;
  }
  __device__ std::int64_t log_sum(std::int64_t token) const {
    return (sample * s.heads + head) * s.tokens + token;
  }
  __device__ float factor() const { return 1.0f / sqrtf(static_cast<float>(s.channels)); }
  // The tokens of the tile that starts at `first`.
  __device__ int count(std::int64_t first) const {
    return static_cast<int>(s.tokens - first < tile ? s.tokens - first : tile);
  }
};

// Calls f(i, j) for the elements that are this thread's.
template <class F>
__device__ inline void for_elements(int rows, std::int64_t columns, const F& f) {
  for (int i = static_cast<int>(threadIdx.y); i < rows; i += kSide) {
    for (int j = static_cast<int>(threadIdx.x); j < columns; j += kSide) f(i, j);
  }
}

// to(i, :) = factor * x[place(first + i)...], and zeros behind the last token.
template <class T, class Place>
__device__ inline void load_tile(const Block& b, const T* x, std::int64_t first, float factor,
                                 const Place& place, const Tile& to) {
  const int count = b.count(first);
  for_elements(b.tile, b.s.channels, [&](int i, int j) {
    to(i, j) = i < count ? to_float(x[place(first + i) + j]) * factor : 0.0f;
  });
}

template <class T, class Place>
__device__ inline void store_tile(const Block& b, const Tile& from, float factor,
                                  const Place& place, T* x) {
  for_elements(b.count(b.own), b.s.channels,
               [&](int i, int j) { assign(x[place(b.own + i) + j], from(i, j) * factor); });
}

__device__ inline float dot(const Tile& a, int i, const Tile& b, int j, std::int64_t count) {
  float sum = 0;
  for (int k = 0; k < count; ++k) sum += a(i, k) * b(j, k);
  return sum;
}

__device__ inline int thread_number() {
  return static_cast<int>(threadIdx.y * kSide + threadIdx.x);
}

// Replaces the scores of a query with the keys of a tile by their exponentials, relative to the
// maximum so far. Returns what the sums so far are to be multiplied by.
__device__ inline float exponentiate(const Tile& scores, int query, int keys, float& maximum,
                                     float& sum) {
  float best = maximum;
  for (int j = 0; j < keys; ++j) best = fmaxf(best, scores(query, j));
  const float before = expf(maximum - best);
  sum *= before;
  for (int j = 0; j < keys; ++j) {
    scores(query, j) = expf(scores(query, j) - best);
    sum += scores(query, j);
  }
  maximum = best;
  return before;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_kernel(AttentionShape s, int tile, const T* qkv, T* y, float* log_sums) {
  const Block b(s, tile);
  Shared shared(tile, s.channels);
  const Tile queries = shared.tokens(), keys = shared.tokens(), values = shared.tokens();
  const Tile out = shared.tokens(), scores = shared.scores();
  float *before = shared.numbers(), *inverse_sums = shared.numbers();
  const int own = thread_number();  // the query whose row this thread sums, if it is in the tile
  float maximum = -INFINITY, sum = 0;
  load_tile(
      b, qkv, b.own, b.factor(), [&](std::int64_t t) { return b.qkv(0, t); }, queries);
  for_elements(tile, s.channels, [&](int i, int j) { out(i, j) = 0; });
  for (std::int64_t first = 0; first < s.tokens; first += tile) {
    const int count = b.count(first);
    __syncthreads();  // the tile before is read
    load_tile(
        b, qkv, first, 1.0f, [&](std::int64_t t) { return b.qkv(1, t); }, keys);
    load_tile(
        b, qkv, first, 1.0f, [&](std::int64_t t) { return b.qkv(2, t); }, values);
    __syncthreads();
    for_elements(tile, count,
                 [&](int i, int j) { scores(i, j) = dot(queries, i, keys, j, s.channels); });
    __syncthreads();
    if (own < tile) before[own] = exponentiate(scores, own, count, maximum, sum);
    __syncthreads();
    for_elements(tile, s.channels, [&](int i, int j) {
      float total = out(i, j) * before[i];
      for (int k = 0; k < count; ++k) total += scores(i, k) * values(k, j);
      out(i, j) = total;
    });
  }
  if (own < tile) inverse_sums[own] = 1.0f / sum;
  if (log_sums != nullptr && own < b.count(b.own)) {
    log_sums[b.log_sum(b.own + own)] = maximum + logf(sum);
  }
  __syncthreads();
  for_elements(tile, s.channels, [&](int i, int j) { out(i, j) *= inverse_sums[i]; });
  store_tile(
      b, out, 1.0f, [&](std::int64_t t) { return b.y(t); }, y);
}

// The inputs of the gradient.
template <class T>
struct AttentionGradient {
  const T* qkv;
  const T* y;
  const float* log_sums;
  const T* dy;
};

// A tile of queries with a tile of keys.
template <class T>
struct GradientTiles {
  const Block& b;
  const AttentionGradient<T>& g;
  Tile queries, dout, keys, values, p, dscores;  // the queries are multiplied by the factor
  float *log_sums, *dots;

  __device__ GradientTiles(const Block& block, const AttentionGradient<T>& gradient, Shared& shared)
      : b(block),
        g(gradient),
        queries(shared.tokens()),
        dout(shared.tokens()),
        keys(shared.tokens()),
        values(shared.tokens()),
        p(shared.scores()),
        dscores(shared.scores()),
        log_sums(shared.numbers()),
        dots(shared.numbers()) {}

  __device__ void load_queries(std::int64_t first) const {
    load_tile(
        b, g.qkv, first, b.factor(), [&](std::int64_t t) { return b.qkv(0, t); }, queries);
    load_tile(
        b, g.dy, first, 1.0f, [&](std::int64_t t) { return b.y(t); }, dout);
    const int own = thread_number();
    if (own >= b.count(first)) return;
    log_sums[own] = g.log_sums[b.log_sum(first + own)];
    const std::int64_t at = b.y(first + own);
    float sum = 0;
    for (int k = 0; k < b.s.channels; ++k) sum += to_float(g.dy[at + k]) * to_float(g.y[at + k]);
    dots[own] = sum;
  }
  __device__ void load_keys(std::int64_t first) const {
    load_tile(
        b, g.qkv, first, 1.0f, [&](std::int64_t t) { return b.qkv(1, t); }, keys);
    load_tile(
        b, g.qkv, first, 1.0f, [&](std::int64_t t) { return b.qkv(2, t); }, values);
  }
  // Computes the probabilities and the gradient of the scores.
  __device__ void compute(int query_count, int key_count) const {
    for_elements(query_count, key_count, [&](int i, int j) {
      const float probability = expf(dot(queries, i, keys, j, b.s.channels) - log_sums[i]);
      p(i, j) = probability;
      dscores(i, j) = probability * (dot(dout, i, values, j, b.s.channels) - dots[i]);
    });
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_dqueries_kernel(AttentionShape s, int tile, AttentionGradient<T> g, T* dqkv) {
  const Block b(s, tile);
  Shared shared(tile, s.channels);
  const GradientTiles<T> tiles(b, g, shared);
  const Tile dqueries = shared.tokens();
  tiles.load_queries(b.own);
  for_elements(tile, s.channels, [&](int i, int j) { dqueries(i, j) = 0; });
  for (std::int64_t first = 0; first < s.tokens; first += tile) {
    const int count = b.count(first), own = b.count(b.own);
    __syncthreads();
    tiles.load_keys(first);
    __syncthreads();
    tiles.compute(own, count);
    __syncthreads();
    for_elements(own, s.channels, [&](int i, int j) {
      float sum = dqueries(i, j);
      for (int k = 0; k < count; ++k) sum += tiles.dscores(i, k) * tiles.keys(k, j);
      dqueries(i, j) = sum;
    });
  }
  store_tile(
      b, dqueries, b.factor(), [&](std::int64_t t) { return b.qkv(0, t); }, dqkv);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_dkeys_kernel(AttentionShape s, int tile, AttentionGradient<T> g, T* dqkv) {
  const Block b(s, tile);
  Shared shared(tile, s.channels);
  const GradientTiles<T> tiles(b, g, shared);
  const Tile dkeys = shared.tokens(), dvalues = shared.tokens();
  tiles.load_keys(b.own);
  for_elements(tile, s.channels, [&](int i, int j) { dkeys(i, j) = dvalues(i, j) = 0; });
  for (std::int64_t first = 0; first < s.tokens; first += tile) {
    const int count = b.count(first), own = b.count(b.own);
    __syncthreads();
    tiles.load_queries(first);
    __syncthreads();
    tiles.compute(count, own);
    __syncthreads();
    for_elements(own, s.channels, [&](int i, int j) {
      float dkey = dkeys(i, j), dvalue = dvalues(i, j);
      for (int k = 0; k < count; ++k) {
        dkey += tiles.dscores(k, i) * tiles.queries(k, j);
        dvalue += tiles.p(k, i) * tiles.dout(k, j);
      }
      dkeys(i, j) = dkey;
      dvalues(i, j) = dvalue;
    });
  }
  store_tile(
      b, dkeys, 1.0f, [&](std::int64_t t) { return b.qkv(1, t); }, dqkv);
  store_tile(
      b, dvalues, 1.0f, [&](std::int64_t t) { return b.qkv(2, t); }, dqkv);
}

// How tokens are divided into tiles, so that `token_tiles` tiles of tokens, `score_tiles` of scores
// and two rows of numbers fit into the shared memory that every GPU gives a block.
struct Tiling {
  int tokens = 32;
  dim3 grid;
  std::size_t bytes = 0;

  Tiling(const AttentionShape& s, int token_tiles, int score_tiles) {
    constexpr std::size_t kShared = 48 << 10;
    const auto count_bytes = [&] {
      return sizeof(float) * static_cast<std::size_t>(tokens) *
             static_cast<std::size_t>(token_tiles * odd(s.channels) + score_tiles * odd(tokens) +
                                      2);
    };
    while (count_bytes() > kShared && tokens > 1) tokens /= 2;
    bytes = count_bytes();
    grid = dim3(pixel_count(divide_up(s.tokens, tokens) * s.heads * s.samples));
  }
};

}  // namespace

void attention(const AttentionShape& shape, const void* qkv, void* y, float* log_sums, DType type,
               cudaStream_t stream) {
  const Tiling tiling(shape, 4, 1);
  with_type(type, [&]<class T>() {
    launch("attention", attention_kernel<T>, tiling.grid, dim3(kSide, kSide), tiling.bytes, stream,
           shape, tiling.tokens, static_cast<const T*>(qkv), static_cast<T*>(y), log_sums);
  });
}

void attention_backward(const AttentionShape& shape, const void* qkv, const void* y,
                        const float* log_sums, const void* dy, void* dqkv, DType type,
                        cudaStream_t stream) {
  const Tiling of_queries(shape, 5, 2), of_keys(shape, 6, 2);
  with_type(type, [&]<class T>() {
    const AttentionGradient<T> g{static_cast<const T*>(qkv), static_cast<const T*>(y), log_sums,
                                 static_cast<const T*>(dy)};
    launch("attention_dqueries", attention_dqueries_kernel<T>, of_queries.grid, dim3(kSide, kSide),
           of_queries.bytes, stream, shape, of_queries.tokens, g, static_cast<T*>(dqkv));
    launch("attention_dkeys", attention_dkeys_kernel<T>, of_keys.grid, dim3(kSide, kSide),
           of_keys.bytes, stream, shape, of_keys.tokens, g, static_cast<T*>(dqkv));
  });
}

}  // namespace trainer::backend::cuda
