// Convolutions 3x3 of stride 1 as Winograd's F(4x4, 3x3); see WinogradShape.
//
// Polynomials are multiplied at the points 0, +-p, +-q and infinity (Lavin, Gray: Fast Algorithms for
// Convolutional Neural Networks, 2015; Barabasz et al.: Error Analysis and Improving the Accuracy of
// Winograd Convolution, 2020): p = 2/3, q = 3/2 lose half of what the usual 1 and 2 lose.

constexpr std::int64_t kPoints = 36;  // 6 x 6

namespace points {
constexpr double p = 2.0 / 3, q = 1.5, pp = p * p, qq = q * q;
// Products of differences between a point and all others: what a kernel's value there is divided by.
constexpr double n0 = pp * qq, np = 2 * pp * (pp - qq), nq = 2 * qq * (qq - pp);
}  // namespace points

// Six rows of an input tile to six points: B^T.
inline void input_points(const V (&d)[6], V (&o)[6]) {
  constexpr float p = points::p, q = points::q, pp = points::pp, qq = points::qq;
  constexpr float product = points::pp * points::qq, sum = points::pp + points::qq;
  const V ep = d[4] - d[2] * qq, op = d[3] - d[1] * qq;
  const V eq = d[4] - d[2] * pp, oq = d[3] - d[1] * pp;
  o[0] = (d[4] - d[2] * sum) + d[0] * product;
  o[1] = ep + op * p;
  o[2] = ep - op * p;
  o[3] = eq + oq * q;
  o[4] = eq - oq * q;
  o[5] = (d[5] - d[3] * sum) + d[1] * product;
}

// Three rows of a kernel: G.
inline void kernel_points(V g0, V g1, V g2, V (&o)[6]) {
  constexpr float c0 = 1 / points::n0;
  constexpr float cp = 1 / points::np, cp1 = points::p / points::np, cp2 = points::pp / points::np;
  constexpr float cq = 1 / points::nq, cq1 = points::q / points::nq, cq2 = points::qq / points::nq;
  const V ep = g0 * cp + g2 * cp2, op = g1 * cp1;
  const V eq = g0 * cq + g2 * cq2, oq = g1 * cq1;
  o[0] = g0 * c0;
  o[1] = ep + op;
  o[2] = ep - op;
  o[3] = eq + oq;
  o[4] = eq - oq;
  o[5] = g2;
}

// Six points to four rows of the output: A^T.
inline void output_rows(const V (&m)[6], V (&o)[4]) {
  constexpr float p = points::p, q = points::q, pp = points::pp, qq = points::qq;
  constexpr float ppp = points::p * points::pp, qqq = points::q * points::qq;
  const V sp = m[1] + m[2], dp = m[1] - m[2];
  const V sq = m[3] + m[4], dq = m[3] - m[4];
  o[0] = (m[0] + sp) + sq;
  o[1] = dp * p + dq * q;
  o[2] = sp * pp + sq * qq;
  o[3] = (dp * ppp + dq * qqq) + m[5];
}

// Four rows of an output's gradient to six points: G for a kernel of four.
inline void gradient_points(const V (&d)[4], V (&o)[6]) {
  constexpr float c0 = 1 / points::n0;
  constexpr float cp = 1 / points::np, cp1 = points::p / points::np, cp2 = points::pp / points::np;
  constexpr float cp3 = points::pp * points::p / points::np;
  constexpr float cq = 1 / points::nq, cq1 = points::q / points::nq, cq2 = points::qq / points::nq;
  constexpr float cq3 = points::qq * points::q / points::nq;
  const V ep = d[0] * cp + d[2] * cp2, op = d[1] * cp1 + d[3] * cp3;
  const V eq = d[0] * cq + d[2] * cq2, oq = d[1] * cq1 + d[3] * cq3;
  o[0] = d[0] * c0;
  o[1] = ep + op;
  o[2] = ep - op;
  o[3] = eq + oq;
  o[4] = eq - oq;
  o[5] = d[3];
}

// Six points to three rows of a kernel's gradient.
inline void tap_rows(const V (&m)[6], V (&o)[3]) {
  constexpr float p = points::p, q = points::q, pp = points::pp, qq = points::qq;
  const V sp = m[1] + m[2], sq = m[3] + m[4];
  o[0] = (m[0] + sp) + sq;
  o[1] = (m[1] - m[2]) * p + (m[3] - m[4]) * q;
  o[2] = (sp * pp + sq * qq) + m[5];
}

// ---- The products at one point: rows of tiles times a panel of output channels ----

constexpr std::int64_t kMostRows = TRAINER_BLOCK == 16 ? 14 : 6;
constexpr std::int64_t kPanel = kWinogradPanel * B;  // output channels

// c = a b: a is [blocks, R, B], b [blocks * B, N * B], rows of c lie c_row apart. Every number is one
// sum in the order of the input channels, whatever R. What the next call needs is fetched meanwhile:
// next_a, as large as a, and next_c.
template <int R, int N>
void multiply(const float* a, const float* b, float* c, std::int64_t blocks, std::int64_t c_row,
              const float* next_a, const float* next_c) {
  V sum[R][N] = {};
  for (; blocks > 0; --blocks, a += R * B, next_a += R * B) {
    if (blocks == 1)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) __builtin_prefetch(next_c + r * c_row + n * B, 1);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) __builtin_prefetch(next_a + r * B);
#pragma GCC unroll 4
    for (int k = 0; k < B; ++k, b += N * B) {
      V row[N];
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) row[n] = load(b + n * B);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) sum[r][n] += row[n] * a[r * B + k];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) store(c + r * c_row + n * B, sum[r][n]);
}

using Multiply = void (*)(const float*, const float*, float*, std::int64_t, std::int64_t,
                          const float*, const float*);

template <int N>
inline Multiply multiply_of(std::int64_t rows) {
  switch (rows) {
    case 1: return multiply<1, N>;
    case 2: return multiply<2, N>;
    case 3: return multiply<3, N>;
    case 4: return multiply<4, N>;
    case 5: return multiply<5, N>;
    case 6: return multiply<6, N>;
#if TRAINER_BLOCK == 16
    case 7: return multiply<7, N>;
    case 8: return multiply<8, N>;
    case 9: return multiply<9, N>;
    case 10: return multiply<10, N>;
    case 11: return multiply<11, N>;
    case 12: return multiply<12, N>;
    case 13: return multiply<13, N>;
    case 14: return multiply<14, N>;
#endif
  }
  __builtin_unreachable();
}

// c = a^T b over `tiles` rows: a is [tiles, B], of which R columns count, b [tiles, N * B].
template <int R, int N>
void correlate(const float* a, const float* b, float* c, std::int64_t tiles, std::int64_t c_row) {
  constexpr std::int64_t kAhead = 32;  // rows
  V sum[R][N] = {};
#pragma GCC unroll 4
  for (std::int64_t t = 0; t < tiles; ++t, a += B, b += N * B) {
    __builtin_prefetch(a + kAhead * B);
    V row[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) row[n] = load(b + n * B);
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


// Tiles [first, first + count) of a call, cut into groups as even as they go.
struct Strip {
  std::int64_t first, count, most_rows;
  std::int64_t groups() const { return ceil_div(count, most_rows); }
  std::int64_t start(std::int64_t group) const { return group * count / groups(); }
  std::int64_t rows(std::int64_t group) const { return start(group + 1) - start(group); }
};

// Where a tile lies: sample, and its first output row and column.
struct Tile {
  std::int64_t n, y, x;
};
inline Tile tile_at(const WinogradShape& s, std::int64_t i) {
  const std::int64_t across = ceil_div(s.ow, 4), down = ceil_div(s.oh, 4);
  return {i / (across * down), i / across % down * 4, i % across * 4};
}
inline void next_tile(const WinogradShape& s, Tile& tile) {
  tile.x += 4;
  if (tile.x < s.ow) return;
  tile.x = 0;
  tile.y += 4;
  if (tile.y < s.oh) return;
  tile.y = 0;
  ++tile.n;
}

// Between the points of `count` rows: not a multiple of a cache's way.
inline std::int64_t point_stride(std::int64_t count, std::int64_t row) { return count * row + B; }

// ---- Input ----

inline void transform_patch(const float* d, std::int64_t row, float* to, std::int64_t stride) {
  V half[6][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    V column[6], points[6];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) column[i] = load(d + i * row + j * B);
    input_points(column, points);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) half[i][j] = points[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    V points[6];
    input_points(half[i], points);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) store(to + (i * 6 + j) * stride, points[j]);
  }
}

// The patch under a tile of one plane [h, w, B], with zeros around the image.
inline void transform_tile(const WinogradShape& s, const float* plane, const Tile& tile, float* to,
                           std::int64_t stride) {
  const std::int64_t y0 = tile.y - s.top, x0 = tile.x - s.left;
  if (y0 >= 0 && x0 >= 0 && y0 + 6 <= s.h && x0 + 6 <= s.w) {
    transform_patch(plane + (y0 * s.w + x0) * B, s.w * B, to, stride);
    return;
  }
  alignas(64) float patch[36 * B];
  for (std::int64_t i = 0; i < 6; ++i)
    for (std::int64_t j = 0; j < 6; ++j) {
      const std::int64_t y = y0 + i, x = x0 + j;
      const bool inside = y >= 0 && x >= 0 && y < s.h && x < s.w;
      store(patch + (i * 6 + j) * B, inside ? load(plane + (y * s.w + x) * B) : V{});
    }
  transform_patch(patch, 6 * B, to, stride);
}

// A strip: [point][group][block of input channels][row][B].
inline void transform_input(const WinogradShape& s, const Strip& strip, const float* x, float* to) {
  const std::int64_t blocks = ceil_div(s.in, B), plane = s.h * s.w * B;
  const std::int64_t stride = point_stride(strip.count, blocks * B), groups = strip.groups();
  for (std::int64_t k = 0; k < blocks; ++k) {
    Tile tile = tile_at(s, strip.first);
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t rows = strip.rows(group);
      float* at = to + (strip.start(group) * blocks + k * rows) * B;
      for (std::int64_t r = 0; r < rows; ++r, next_tile(s, tile))
        transform_tile(s, x + (tile.n * blocks + k) * plane, tile, at + r * B, stride);
    }
  }
}

// ---- Kernel ----

// Nine taps of B (input, output) pairs to all points, `stride` apart.
inline void transform_taps(const V (&g)[9], float* to, std::int64_t stride) {
  V half[6][3];
#pragma GCC unroll 3
  for (int j = 0; j < 3; ++j) {
    V points[6];
    kernel_points(g[j], g[3 + j], g[6 + j], points);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) half[i][j] = points[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    V points[6];
    kernel_points(half[i][0], half[i][1], half[i][2], points);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) store(to + (i * 6 + j) * stride, points[j]);
  }
}

// Input channel k, B output channels from n.
inline void transform_taps_at(const WinogradShape& s, const float* kernel, std::int64_t k,
                              std::int64_t n, float* to, std::int64_t stride) {
  V g[9];
  for (int t = 0; t < 9; ++t)
    g[t] = k < s.in ? load_first(kernel + (t * s.in + k) * s.out + n, s.out - n) : V{};
  transform_taps(g, to, stride);
}

// The same for B input channels of a kernel that is to be transposed and turned; rows of `to` for
// the input channels lie `row` apart.
inline void transform_transposed(const WinogradShape& s, const float* kernel, std::int64_t k,
                                 std::int64_t n, float* to, std::int64_t row, std::int64_t stride) {
  const std::int64_t ins = s.in - k, outs = s.out - n;
  alignas(64) float taps[9][B][B];
  for (int t = 0; t < 9; ++t) {
    const float* from = kernel + ((8 - t) * s.out + n) * s.in + k;
    V v[B];
#pragma GCC unroll 16
    for (int c = 0; c < B; ++c) {
      __builtin_prefetch(from + c * s.in + 2 * B, 0, 2);
      v[c] = c < outs ? load_first(from + c * s.in, ins) : V{};
    }
    transpose_step<1>(v);
#pragma GCC unroll 16
    for (int r = 0; r < B; ++r) store(taps[t][r], v[r]);
  }
  for (std::int64_t r = 0; r < B; ++r) {
    V g[9];
    for (int t = 0; t < 9; ++t) g[t] = load(taps[t][r]);
    transform_taps(g, to + r * row, stride);
  }
}

// Output channels [n0, n0 + width) of a kernel, width B or kPanel: [point][input channel][width].
inline void transform_kernel(const WinogradShape& s, const float* kernel, std::int64_t n0,
                             std::int64_t width, float* to) {
  constexpr std::int64_t kAhead = 4;  // rows of the kernel
  const std::int64_t ins = round_up(s.in), stride = point_stride(ins, width);
  if (s.transposed) {
    for (std::int64_t n = 0; n < width; n += B)
      for (std::int64_t k = 0; k < ins; k += B)
        transform_transposed(s, kernel, k, n0 + n, to + k * width + n, width, stride);
    return;
  }
  for (std::int64_t k = 0; k < ins; ++k)
    for (std::int64_t n = 0; n < width; n += B) {
      const float* ahead = kernel + (k + kAhead) * s.out + n0 + n;
      for (int t = 0; t < 9; ++t) __builtin_prefetch(ahead + t * s.in * s.out, 0, 2);
      transform_taps_at(s, kernel, k, n0 + n, to + k * width + n, stride);
    }
}

// ---- Output ----

template <Gate gate>
inline void transform_output_tile(const WinogradShape& s, const float* m, std::int64_t stride, V bias,
                                  const Tile& tile, float* plane) {
  V half[4][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    V column[6], rows[4];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) column[i] = load(m + (i * 6 + j) * stride);
    output_rows(column, rows);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) half[i][j] = rows[i];
  }
  const std::int64_t height = least(4, s.oh - tile.y), width = least(4, s.ow - tile.x);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    V out[4];
    output_rows(half[i], out);
    if (i >= height) continue;
    float* to = plane + ((tile.y + i) * s.ow + tile.x) * B;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
      if (j < width) store(to + j * B, activate<gate>(out[j] + bias, s.alpha));
  }
}

// Output channels [n0, n0 + width) of a strip.
inline void transform_output(const WinogradShape& s, const Strip& strip, const float* m,
                             const float* bias, std::int64_t n0, std::int64_t width, float* y) {
  const std::int64_t blocks = ceil_div(s.out, B), plane = s.oh * s.ow * B;
  with_gate(s.gate, [&]<Gate gate>() {
    for (std::int64_t n = 0; n < width; n += B) {
      const V b = bias == nullptr ? V{} : load_first(bias + n0 + n, s.out - n0 - n);
      Tile tile = tile_at(s, strip.first);
      for (std::int64_t t = 0; t < strip.count; ++t, next_tile(s, tile))
        transform_output_tile<gate>(s, m + t * kPoints * width + n, width, b, tile,
                                    y + (tile.n * blocks + (n0 + n) / B) * plane);
    }
  });
}

// m [tile][point][width] = the products, `a` as transform_input() and `b` as transform_kernel() leave
// them.
inline void multiply_points(const Strip& strip, std::int64_t ins, std::int64_t width, const float* a,
                            const float* b, float* m) {
  const std::int64_t groups = strip.groups(), stride = point_stride(strip.count, ins);
  for (std::int64_t point = 0; point < kPoints; ++point) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t start = strip.start(group), rows = strip.rows(group);
      const std::int64_t next = group + 1 < groups ? strip.start(group + 1) : 0;
      const std::int64_t next_point = next > 0 ? point : point + 1;
      const Multiply run = width == kPanel ? multiply_of<2>(rows) : multiply_of<1>(rows);
      run(a + point * stride + start * ins, b + point * point_stride(ins, width),
          m + (start * kPoints + point) * width, ins / B, kPoints * width,
          a + next_point * stride + next * ins, m + (next * kPoints + next_point) * width);
    }
  }
}

// ---- All of it ----

// Scratch, in floats: of the transformed kernel or a panel of it, a strip's input, and its products.
struct WinogradScratch {
  std::int64_t panel, kernel, input, products;
};
inline std::int64_t tiles_of(const WinogradShape& s) {
  return s.n * ceil_div(s.oh, 4) * ceil_div(s.ow, 4);
}
inline WinogradScratch scratch_of(const WinogradShape& s) {
  const std::int64_t ins = round_up(s.in), tiles = least(s.tiles, tiles_of(s));
  const std::int64_t panel = kPoints * point_stride(ins, kPanel);
  return {panel, s.whole_kernel ? panel * ceil_div(s.out_end - s.out_begin, kPanel) : panel,
          kPoints * point_stride(tiles, ins), kPoints * kPanel * tiles};
}

std::int64_t winograd_scratch(const WinogradShape& s) {
  const WinogradScratch scratch = scratch_of(s);
  return scratch.kernel + scratch.input + scratch.products;
}

void winograd(const WinogradShape& s, const float* x, const float* kernel, const float* bias, float* y,
              float* scratch) {
  const WinogradScratch sizes = scratch_of(s);
  float* products = scratch + sizes.kernel;
  float* input = products + sizes.products;
  const std::int64_t end = round_up(s.out_end), tiles = tiles_of(s);
  const std::int64_t strips = ceil_div(tiles, s.tiles);
  for (std::int64_t i = 0; i < strips; ++i) {
    const std::int64_t first = tiles * i / strips;
    const Strip strip{first, tiles * (i + 1) / strips - first, kMostRows};
    transform_input(s, strip, x, input);
    for (std::int64_t n = s.out_begin; n < end; n += kPanel) {
      const std::int64_t width = least(kPanel, end - n);
      float* panel = scratch + (s.whole_kernel ? (n - s.out_begin) / kPanel * sizes.panel : 0);
      if (i == 0 || !s.whole_kernel) transform_kernel(s, kernel, n, width, panel);
      multiply_points(strip, round_up(s.in), width, input, panel, products);
      transform_output(s, strip, products, bias, n, width, y);
    }
  }
}

// ---- The gradient of the kernel: F(3x3, 4x4), with the output's gradient as the kernel ----

// Outputs outside the image count as zeros.
inline V transform_gradient_tile(const WinogradShape& s, const float* plane, const Tile& tile,
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

// Output channels [n0, n0 + width) of a strip: [point][tile][width]. Their sums go to dbias.
inline void transform_gradient(const WinogradShape& s, const Strip& strip, const float* dy,
                               std::int64_t n0, std::int64_t width, float* to, float* dbias) {
  const std::int64_t blocks = ceil_div(s.out, B), plane = s.oh * s.ow * B;
  const std::int64_t stride = point_stride(strip.count, width);
  for (std::int64_t n = 0; n < width; n += B) {
    V sum{};
    Tile tile = tile_at(s, strip.first);
    for (std::int64_t t = 0; t < strip.count; ++t, next_tile(s, tile))
      sum += transform_gradient_tile(s, dy + (tile.n * blocks + (n0 + n) / B) * plane, tile,
                                     to + t * width + n, stride);
    if (dbias == nullptr) continue;
    const std::int64_t count = s.out - n0 - n;
    if (strip.first > 0) sum += load_first(dbias + n0 + n, count);
    store_first(dbias + n0 + n, sum, count);
  }
}

constexpr std::int64_t kGradientRows = 4 * B;  // input channels whose products are kept at once

// Sums at all points of input channels [k0, k0 + ins) to taps; `add` to those of earlier strips.
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
  const std::int64_t tiles = least(s.tiles, tiles_of(s));
  return kPoints * (point_stride(tiles, round_up(s.in)) + point_stride(tiles, kPanel) +
                    point_stride(kGradientRows, kPanel));
}

void winograd_weights(const WinogradShape& s, const float* x, const float* dy, float* dkernel,
                      float* dbias, float* scratch) {
  const std::int64_t ins = round_up(s.in), end = round_up(s.out_end), tiles = tiles_of(s);
  float* gradient = scratch + kPoints * point_stride(least(s.tiles, tiles), ins);
  float* products = gradient + kPoints * point_stride(least(s.tiles, tiles), kPanel);
  const std::int64_t strips = ceil_div(tiles, s.tiles);
  for (std::int64_t i = 0; i < strips; ++i) {
    const std::int64_t first = tiles * i / strips, count = tiles * (i + 1) / strips - first;
    const Strip strip{first, count, count};
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
