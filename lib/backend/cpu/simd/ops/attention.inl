// Multi-head attention. The scores of a tile of queries with all keys of a head are in memory at a
// time.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

// Queries, keys and values of `heads` heads lie side by side in each token.
struct AttentionShape {
  std::int64_t tokens = 0, heads = 1, channels = 0;  // channels of a head
};

// The kernels work on one head of one sample. Pointers point to the first token's number of that
// head; `log_sums` has one number per token. `scratch` holds the floats that its function returns,
// and is aligned to 64 bytes.
template <class T>
struct AttentionKernels {
  // log_sums may be null.
  void (*forward)(const AttentionShape&, const T* qkv, T* y, float* log_sums, float* scratch);
  void (*backward)(const AttentionShape&, const T* qkv, const float* log_sums, const T* dy, T* dqkv,
                   float* scratch);
  std::int64_t (*forward_scratch)(const AttentionShape&);
  std::int64_t (*backward_scratch)(const AttentionShape&);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

// A product is computed in tiles of kTileRows rows and at most kTileVectors vectors, which
// registers hold.
constexpr int kTileRows = 6, kTileVectors = TRAINER_BLOCK == 16 ? 4 : 2;
constexpr std::int64_t kQueries =
    48;  // per tile of scores: whole tiles of a product, and whole vectors

inline std::int64_t whole_tiles(std::int64_t rows) { return ceil_div(rows, kTileRows) * kTileRows; }

// The sizes of a head's matrices in memory, padded so that products and transpositions have no
// edges.
struct HeadSizes {
  std::int64_t tokens, channels;  // whole multiples of kQueries and of B
  std::int64_t matrix() const { return tokens * channels; }
  std::int64_t queries() const { return kQueries * channels; }
  std::int64_t scores() const { return kQueries * tokens; }
};

HeadSizes head_sizes(const AttentionShape& s) {
  return {ceil_div(s.tokens, kQueries) * kQueries, round_up(s.channels)};
}

// A matrix whose element (i, j) is at[i * row + j * column].
struct Factor {
  const float* at;
  std::int64_t row, column;
};

// The columns of one tile: `width` vectors of b and c.
template <int width>
inline void multiply_tile(std::int64_t depth, const Factor& a, const float* b, std::int64_t b_row,
                          float* c, std::int64_t c_row, bool add) {
  V sum[kTileRows][width];
#pragma GCC unroll 6
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < width; ++j) sum[i][j] = add ? load(c + i * c_row + j * B) : V{};
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    V right[width];
#pragma GCC unroll 4
    for (int j = 0; j < width; ++j) right[j] = load(b + k * b_row + j * B);
#pragma GCC unroll 6
    for (int i = 0; i < kTileRows; ++i) {
      const V left = splat(a.at[i * a.row + k * a.column]);
#pragma GCC unroll 4
      for (int j = 0; j < width; ++j) sum[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < width; ++j) store(c + i * c_row + j * B, sum[i][j]);
  }
}

template <int width>
void multiply_columns(std::int64_t rows, std::int64_t depth, Factor a, const float* b,
                      std::int64_t b_row, float* c, std::int64_t c_row, bool add) {
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    multiply_tile<width>(depth, a, b, b_row, c, c_row, add);
    a.at += kTileRows * a.row;
    c += kTileRows * c_row;
  }
}

// c[rows, columns] = a[rows, depth] b[depth, columns] + (add ? c : 0). Rows are rounded up to whole
// tiles, columns are whole vectors. What lies in a beyond its rows reaches only what lies in c
// beyond its rows.
void multiply_matrices(std::int64_t rows, std::int64_t columns, std::int64_t depth, const Factor& a,
                       const float* b, std::int64_t b_row, float* c, std::int64_t c_row, bool add) {
  constexpr std::int64_t kWidth = kTileVectors * B;
  std::int64_t j = 0;
  for (; j + kWidth <= columns; j += kWidth) {
    multiply_columns<kTileVectors>(rows, depth, a, b + j, b_row, c + j, c_row, add);
  }
  for (; j < columns; j += B) multiply_columns<1>(rows, depth, a, b + j, b_row, c + j, c_row, add);
}

// to[rows, padded channels] = factor * from, and zeros up to `all_rows`.
template <class T>
void pack_rows(const T* from, std::int64_t from_row, std::int64_t rows, std::int64_t all_rows,
               std::int64_t channels, float factor, float* to) {
  const std::int64_t padded = round_up(channels), whole = channels - channels % B;
  for (std::int64_t r = 0; r < rows; ++r, from += from_row, to += padded) {
    for (std::int64_t c = 0; c < whole; c += B) store(to + c, load(from + c) * factor);
    for (std::int64_t c = whole; c < padded; ++c)
      to[c] = c < channels ? get(from + c) * factor : 0.0f;
  }
  for (std::int64_t i = 0; i < (all_rows - rows) * padded; ++i) to[i] = 0;
}

template <class T>
void unpack_row(const float* from, std::int64_t channels, float factor, T* to) {
  const std::int64_t whole = channels - channels % B;
  for (std::int64_t c = 0; c < whole; c += B) store(to + c, load(from + c) * factor);
  for (std::int64_t c = whole; c < channels; ++c) put(to + c, from[c] * factor);
}

// to[columns, rows] = from[rows, columns]; both are whole multiples of B.
void transpose(const float* from, std::int64_t rows, std::int64_t columns, float* to) {
  for (std::int64_t r = 0; r < rows; r += B) {
    for (std::int64_t c = 0; c < columns; c += B) {
      V v[B];
#pragma GCC unroll 16
      for (int i = 0; i < B; ++i) v[i] = load(from + (r + i) * columns + c);
      transpose_step<1>(v);
#pragma GCC unroll 16
      for (int i = 0; i < B; ++i) store(to + (c + i) * rows + r, v[i]);
    }
  }
}

inline float add_up(V v) {
  float sum = 0;
  for (std::int64_t i = 0; i < B; ++i) sum += v[i];
  return sum;
}

struct RowSum {
  float maximum, sum;
};

// Replaces the scores of one query by their exponentials, relative to their maximum; zeros fill the
// last vector.
RowSum exponentiate_row(float* scores, std::int64_t tokens) {
  const std::int64_t padded = round_up(tokens);
  for (std::int64_t i = tokens; i < padded; ++i) scores[i] = -__builtin_inff();
  V best = load(scores);
  for (std::int64_t i = B; i < padded; i += B) {
    const V v = load(scores + i);
    best = select(v > best, v, best);
  }
  float maximum = best[0];
  for (std::int64_t i = 1; i < B; ++i) maximum = best[i] > maximum ? best[i] : maximum;
  V sum{};
  for (std::int64_t i = 0; i < padded; i += B) {
    const V e = exponential(load(scores + i) - maximum);
    store(scores + i, e);
    sum += e;
  }
  return {maximum, add_up(sum)};
}

inline float score_factor(const AttentionShape& s) {
  return 1.0f / __builtin_sqrtf(static_cast<float>(s.channels));
}

std::int64_t attention_scratch(const AttentionShape& s) {
  const HeadSizes size = head_sizes(s);
  return 3 * size.matrix() + 2 * size.queries() + size.scores();
}

template <class T>
void attention(const AttentionShape& s, const T* qkv, T* y, float* log_sums, float* scratch) {
  const HeadSizes size = head_sizes(s);
  const std::int64_t row = s.heads * s.channels, columns = round_up(s.tokens);
  float *keys = scratch, *keys_transposed = keys + size.matrix(),
        *values = keys_transposed + size.matrix();
  float *queries = values + size.matrix(), *outputs = queries + size.queries(),
        *scores = outputs + size.queries();
  pack_rows(qkv + row, 3 * row, s.tokens, size.tokens, s.channels, 1.0f, keys);
  transpose(keys, size.tokens, size.channels, keys_transposed);
  pack_rows(qkv + 2 * row, 3 * row, s.tokens, s.tokens, s.channels, 1.0f, values);
  for (std::int64_t first = 0; first < s.tokens; first += kQueries) {
    const std::int64_t count = least(kQueries, s.tokens - first);
    pack_rows(qkv + first * 3 * row, 3 * row, count, whole_tiles(count), s.channels,
              score_factor(s), queries);
    multiply_matrices(count, columns, s.channels, {queries, size.channels, 1}, keys_transposed,
                      size.tokens, scores, size.tokens, false);
    float inverse_sums[kQueries];
    for (std::int64_t i = 0; i < count; ++i) {
      const RowSum sum = exponentiate_row(scores + i * size.tokens, s.tokens);
      inverse_sums[i] = 1.0f / sum.sum;
      if (log_sums != nullptr) log_sums[first + i] = sum.maximum + __builtin_logf(sum.sum);
    }
    multiply_matrices(count, size.channels, s.tokens, {scores, size.tokens, 1}, values,
                      size.channels, outputs, size.channels, false);
    for (std::int64_t i = 0; i < count; ++i) {
      unpack_row(outputs + i * size.channels, s.channels, inverse_sums[i], y + (first + i) * row);
    }
  }
}

std::int64_t attention_backward_scratch(const AttentionShape& s) {
  const HeadSizes size = head_sizes(s);
  return 6 * size.matrix() + 3 * size.queries() + 2 * size.scores();
}

// Replaces the scores of one query by their probabilities p, and the gradients dp = dy values^T of
// these by the gradients of the scores, p * (dp - the sum of p * dp over the keys).
void score_gradients(float* scores, float* dp, std::int64_t tokens, float log_sum) {
  const std::int64_t padded = round_up(tokens);
  for (std::int64_t i = tokens; i < padded; ++i) scores[i] = -__builtin_inff();
  V sum{};
  for (std::int64_t i = 0; i < padded; i += B) {
    const V p = exponential(load(scores + i) - log_sum);
    store(scores + i, p);
    sum += p * load(dp + i);
  }
  const float all = add_up(sum);
  for (std::int64_t i = 0; i < padded; i += B)
    store(dp + i, load(scores + i) * (load(dp + i) - all));
}

template <class T>
void attention_backward(const AttentionShape& s, const T* qkv, const float* log_sums, const T* dy,
                        T* dqkv, float* scratch) {
  const HeadSizes size = head_sizes(s);
  const std::int64_t row = s.heads * s.channels, columns = round_up(s.tokens), c = size.channels;
  const float factor = score_factor(s);
  float *keys = scratch, *keys_transposed = keys + size.matrix(),
        *values = keys_transposed + size.matrix();
  float *values_transposed = values + size.matrix(), *dkeys = values_transposed + size.matrix();
  float *dvalues = dkeys + size.matrix(), *queries = dvalues + size.matrix(),
        *dqueries = queries + size.queries();
  float *dout = dqueries + size.queries(), *scores = dout + size.queries(),
        *dscores = scores + size.scores();
  pack_rows(qkv + row, 3 * row, s.tokens, size.tokens, s.channels, 1.0f, keys);
  transpose(keys, size.tokens, c, keys_transposed);
  pack_rows(qkv + 2 * row, 3 * row, s.tokens, size.tokens, s.channels, 1.0f, values);
  transpose(values, size.tokens, c, values_transposed);
  for (std::int64_t first = 0; first < s.tokens; first += kQueries) {
    const std::int64_t count = least(kQueries, s.tokens - first);
    pack_rows(qkv + first * 3 * row, 3 * row, count, whole_tiles(count), s.channels, factor,
              queries);
    pack_rows(dy + first * row, row, count, whole_tiles(count), s.channels, 1.0f, dout);
    multiply_matrices(count, columns, s.channels, {queries, c, 1}, keys_transposed, size.tokens,
                      scores, size.tokens, false);
    multiply_matrices(count, columns, s.channels, {dout, c, 1}, values_transposed, size.tokens,
                      dscores, size.tokens, false);
    for (std::int64_t i = 0; i < count; ++i) {
      score_gradients(scores + i * size.tokens, dscores + i * size.tokens, s.tokens,
                      log_sums[first + i]);
    }
    const bool add = first > 0;
    multiply_matrices(s.tokens, c, count, {scores, 1, size.tokens}, dout, c, dvalues, c, add);
    multiply_matrices(s.tokens, c, count, {dscores, 1, size.tokens}, queries, c, dkeys, c, add);
    multiply_matrices(count, c, s.tokens, {dscores, size.tokens, 1}, keys, c, dqueries, c, false);
    for (std::int64_t i = 0; i < count; ++i) {
      unpack_row(dqueries + i * c, s.channels, factor, dqkv + (first + i) * 3 * row);
    }
  }
  for (std::int64_t i = 0; i < s.tokens; ++i) {
    unpack_row(dkeys + i * c, s.channels, 1.0f, dqkv + i * 3 * row + row);
    unpack_row(dvalues + i * c, s.channels, 1.0f, dqkv + i * 3 * row + 2 * row);
  }
}

template <class T>
constexpr AttentionKernels<T> kKernels<AttentionKernels<T>> = {
    .forward = attention<T>,
    .backward = attention_backward<T>,
    .forward_scratch = attention_scratch,
    .backward_scratch = attention_backward_scratch,
};

}  // namespace

template const AttentionKernels<float>& find_kernels();
template const AttentionKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
