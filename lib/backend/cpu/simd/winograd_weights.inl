// The gradient of the kernel of a convolution 3x3 of stride 1: F(3x3, 4x4), with the output's
// gradient as the kernel.

// c = a^T b over `tiles` rows: a is [tiles, B], of which R columns count, b [tiles, N * B].
template <int R, int N>
void correlate(const float* a, const float* b, float* c, std::int64_t tiles, std::int64_t c_row) {
  constexpr std::int64_t kAhead = 32, kAheadB = 16;  // rows
  V sum[R][N] = {};
#pragma GCC unroll 4
  for (std::int64_t t = 0; t < tiles; ++t, a += B, b += N * B) {
    __builtin_prefetch(a + kAhead * B);
    V row[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) {
      __builtin_prefetch(b + (kAheadB * N + n) * B);
      row[n] = load(b + n * B);
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) sum[r][n] += row[n] * a[r];
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) store(c + r * c_row + n * B, sum[r][n]);
}

// Outputs outside the image count as zeros.
template <class T>
inline V transform_gradient_tile(const WinogradShape& s, const T* plane, const Tile& tile,
                                 float* to, std::int64_t stride) {
  V half[6][4], sum{};
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    V column[4], points[6];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const bool inside = tile.y + i < s.oh && tile.x + j < s.ow;
      column[i] = inside ? load(plane + ((tile.y + i) * s.ow + tile.x + j) * B) : V{};
      sum += column[i];
    }
    gradient_points(column, points);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) half[i][j] = points[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    V points[6];
    gradient_points(half[i], points);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) store(to + (i * 6 + j) * stride, points[j]);
  }
  return sum;
}

// Transforms the output channels [n0, n0 + width) of a strip to [point][tile][width]. Adds their
// sums to dbias.
template <class T>
inline void transform_gradient(const WinogradShape& s, const Strip& strip, const T* dy,
                               std::int64_t n0, std::int64_t width, float* to, float* dbias) {
  const std::int64_t blocks = ceil_div(s.out, B), plane = s.oh * s.ow * B;
  const std::int64_t stride = point_stride(strip.count, width);
  Walk walk(s, strip), ahead = walk_ahead(s, strip);
  const auto pixels = [&](const Walk& at) {
    return dy + (at.tile().n * blocks + n0 / B + at.block()) * plane;
  };
  for (std::int64_t n = 0; n < width; n += B) {
    V sum{};
    for (std::int64_t t = 0; t < strip.count; ++t, walk.next(), ahead.next()) {
      prefetch_rows(pixels(ahead) + (ahead.tile().y * s.ow + ahead.tile().x) * B, s.ow * B);
      sum += transform_gradient_tile(s, pixels(walk), walk.tile(), to + t * width + n, stride);
    }
    if (dbias == nullptr) continue;
    const std::int64_t count = s.out - n0 - n;
    if (strip.first > 0) sum += load_first(dbias + n0 + n, count);
    store_first(dbias + n0 + n, sum, count);
  }
}

constexpr std::int64_t kGradientRows = 4 * B;  // input channels whose products are kept at once

// Transforms the sums at all points of input channels [k0, k0 + ins) to taps; `add` adds them to
// those of earlier strips.
inline void transform_taps_back(const WinogradShape& s, const float* m, std::int64_t k0,
                                std::int64_t ins, std::int64_t n0, std::int64_t width, bool add,
                                float* dkernel) {
  constexpr std::int64_t kAhead = 4;  // rows of the kernel
  const std::int64_t stride = point_stride(kGradientRows, width);
  for (std::int64_t k = 0; k < least(ins, s.in - k0); ++k)
    for (std::int64_t n = 0; n < width; n += B) {
      const float* from = m + k * width + n;
      float* ahead = dkernel + (k0 + k + kAhead) * s.out + n0 + n;
      for (int t = 0; t < 9; ++t) __builtin_prefetch(ahead + t * s.in * s.out, 1);
      V half[3][6];
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) {
        V column[6], rows[3];
#pragma GCC unroll 6
        for (int i = 0; i < 6; ++i) column[i] = load(from + (i * 6 + j) * stride);
        tap_rows(column, rows);
#pragma GCC unroll 3
        for (int i = 0; i < 3; ++i) half[i][j] = rows[i];
      }
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) {
        V taps[3];
        tap_rows(half[i], taps);
#pragma GCC unroll 3
        for (int j = 0; j < 3; ++j) {
          float* to = dkernel + (((i * 3 + j) * s.in) + k0 + k) * s.out + n0 + n;
          const std::int64_t count = s.out - n0 - n;
          store_first(to, add ? taps[j] + load_first(to, count) : taps[j], count);
        }
      }
    }
}

// a: [point][block of input channels][tile][B], b: [point][tile][width].
inline void correlate_points(const Strip& strip, std::int64_t all_ins, std::int64_t k0,
                             std::int64_t ins, std::int64_t width, const float* a, const float* b,
                             float* m) {
  constexpr int R = B / 2;
  const std::int64_t a_stride = point_stride(strip.count, all_ins);
  const auto run = width == kPanel ? correlate<R, 2> : correlate<R, 1>;
  for (std::int64_t point = 0; point < kPoints; ++point)
    for (std::int64_t k = 0; k < ins; k += R)
      run(a + point * a_stride + (k0 + k) / B * B * strip.count + k % B,
          b + point * point_stride(strip.count, width),
          m + point * point_stride(kGradientRows, width) + k * width, strip.count, width);
}

std::int64_t winograd_weights_scratch(const WinogradShape& s) {
  const std::int64_t tiles = max_tiles(s);
  return kPoints * (point_stride(tiles, round_up(s.in)) + point_stride(tiles, kPanel) +
                    point_stride(kGradientRows, kPanel));
}

template <class T>
void winograd_weights(const WinogradShape& s, const T* x, const T* dy, float* dkernel, float* dbias,
                      float* scratch) {
  const std::int64_t ins = round_up(s.in), end = round_up(s.out_end), strips = count_strips(s);
  float* gradient = scratch + kPoints * point_stride(max_tiles(s), ins);
  float* products = gradient + kPoints * point_stride(max_tiles(s), kPanel);
  for (std::int64_t i = 0; i < strips; ++i) {
    const Strip strip = strip_at(s, i, count_tiles(s));
    transform_input(s, strip, x, scratch);
    for (std::int64_t n = s.out_begin; n < end; n += kPanel) {
      const std::int64_t width = least(kPanel, end - n);
      transform_gradient(s, strip, dy, n, width, gradient, dbias);
      for (std::int64_t k = 0; k < ins; k += kGradientRows) {
        const std::int64_t rows = least(kGradientRows, ins - k);
        correlate_points(strip, ins, k, rows, width, scratch, gradient, products);
        transform_taps_back(s, products, k, rows, n, width, i > 0, dkernel);
      }
    }
  }
}
