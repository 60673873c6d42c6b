// How tiles of a convolution 3x3 become the values of polynomials at 36 points and back; see
// WinogradShape.
//
// Polynomials are multiplied at the points 0, +-p, +-q and infinity (Lavin, Gray: Fast Algorithms
// for Convolutional Neural Networks, 2015; Barabasz et al.: Error Analysis and Improving the
// Accuracy of Winograd Convolution, 2020): p = 2/3, q = 3/2 lose half of what the usual 1 and 2
// lose.
//
// A transform goes down the columns, then along the rows. Those of inputs and outputs do so for
// half of the rows at a time, which AVX-512's registers hold.

constexpr std::int64_t kPoints = 36;                 // 6 x 6
constexpr std::int64_t kPanel = kWinogradPanel * B;  // output channels

namespace points {
constexpr double p = 2.0 / 3, q = 1.5, pp = p * p, qq = q * q;
// Products of differences between a point and all others: what a kernel's value there is divided
// by.
constexpr double n0 = pp * qq, np = 2 * pp * (pp - qq), nq = 2 * qq * (qq - pp);
}  // namespace points

// Six rows of an input tile to the points 0, p, -p, or q, -q, infinity: B^T.
inline void input_points_p(const V (&d)[6], V* o) {
  constexpr float p = points::p, qq = points::qq;
  constexpr float product = points::pp * points::qq, sum = points::pp + points::qq;
  const V ep = d[4] - d[2] * qq, op = d[3] - d[1] * qq;
  o[0] = (d[4] - d[2] * sum) + d[0] * product;
  o[1] = ep + op * p;
  o[2] = ep - op * p;
}
inline void input_points_q(const V (&d)[6], V* o) {
  constexpr float q = points::q, pp = points::pp;
  constexpr float product = points::pp * points::qq, sum = points::pp + points::qq;
  const V eq = d[4] - d[2] * pp, oq = d[3] - d[1] * pp;
  o[0] = eq + oq * q;
  o[1] = eq - oq * q;
  o[2] = (d[5] - d[3] * sum) + d[1] * product;
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

// Six points to rows 0 and 2, or 1 and 3, of the output: A^T.
inline void even_output_rows(const V (&m)[6], V& row0, V& row2) {
  constexpr float pp = points::pp, qq = points::qq;
  const V sp = m[1] + m[2], sq = m[3] + m[4];
  row0 = (m[0] + sp) + sq;
  row2 = sp * pp + sq * qq;
}
inline void odd_output_rows(const V (&m)[6], V& row1, V& row3) {
  constexpr float p = points::p, q = points::q;
  constexpr float ppp = points::p * points::pp, qqq = points::q * points::qq;
  const V dp = m[1] - m[2], dq = m[3] - m[4];
  row1 = dp * p + dq * q;
  row3 = (dp * ppp + dq * qqq) + m[5];
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

// Tiles [first, first + count) of a call, divided into groups as evenly as possible.
struct Strip {
  std::int64_t first, count, most_rows;
  std::int64_t groups() const { return ceil_div(count, most_rows); }
  std::int64_t start(std::int64_t group) const { return group * count / groups(); }
  std::int64_t rows(std::int64_t group) const { return start(group + 1) - start(group); }
};
inline std::int64_t count_tiles(const WinogradShape& s) {
  return s.n * ceil_div(s.oh, 4) * ceil_div(s.ow, 4);
}
inline std::int64_t count_strips(const WinogradShape& s) {
  return ceil_div(count_tiles(s), s.tiles);
}
inline std::int64_t max_tiles(const WinogradShape& s) { return least(s.tiles, count_tiles(s)); }
// Returns the i-th strip of a call. Strips are as even as possible.
inline Strip strip_at(const WinogradShape& s, std::int64_t i, std::int64_t most_rows) {
  const std::int64_t tiles = count_tiles(s), strips = count_strips(s), first = tiles * i / strips;
  return {first, tiles * (i + 1) / strips - first, most_rows};
}

// The place of a tile: its sample, and its first output row and column.
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

// Visits the tiles of a strip in the first block of channels, then in the next.
class Walk {
 public:
  Walk(const WinogradShape& s, const Strip& strip) : s_(s), strip_(strip) { start(); }
  const Tile& tile() const { return tile_; }
  std::int64_t block() const { return block_; }
  void next() {
    next_tile(s_, tile_);
    if (--left_ > 0) return;
    start();
    ++block_;
  }

 private:
  void start() {
    tile_ = tile_at(s_, strip_.first);
    left_ = strip_.count;
  }
  const WinogradShape& s_;
  const Strip& strip_;
  Tile tile_{};
  std::int64_t left_ = 0, block_ = 0;
};

// Returns a walk that is 16 tiles ahead of the first tile of the strip. A transform is so short
// that its input must be prefetched that many tiles earlier.
inline Walk walk_ahead(const WinogradShape& s, const Strip& strip) {
  constexpr int kTiles = 16;
  Walk walk(s, strip);
  for (int i = 0; i < kTiles; ++i) walk.next();
  return walk;
}

// Prefetches four pixels of four rows, `row` apart, into L2.
template <class T>
inline void prefetch_rows(const T* p, std::int64_t row) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < 4; ++i)
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < 4 * B; j += kLine) __builtin_prefetch(p + i * row + j, 0, 2);
}

// Returns the distance between the points of `count` rows, which is not a multiple of a cache's
// way.
inline std::int64_t point_stride(std::int64_t count, std::int64_t row) { return count * row + B; }

// ---- Input ----

// The points that to_points() gives down the columns, with all six along the rows: half of a patch
// whose rows lie `row` apart.
template <void (*to_points)(const V (&)[6], V*), class T>
inline void transform_half(const T* d, std::int64_t row, float* to, std::int64_t stride) {
  V rows[3][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    V column[6], points[3];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) column[i] = load(d + i * row + j * B);
    to_points(column, points);
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) rows[i][j] = points[i];
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    V points[6];
    input_points_p(rows[i], points);
    input_points_q(rows[i], points + 3);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) store(to + (i * 6 + j) * stride, points[j]);
  }
}
template <class T>
inline void transform_patch(const T* d, std::int64_t row, float* to, std::int64_t stride) {
  transform_half<input_points_p>(d, row, to, stride);
  transform_half<input_points_q>(d, row, to + 18 * stride, stride);
}

// The patch under a tile of one plane [h, w, B], with zeros around the image.
template <class T>
inline void transform_tile(const WinogradShape& s, const T* plane, const Tile& tile, float* to,
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
template <class T>
inline void transform_input(const WinogradShape& s, const Strip& strip, const T* x, float* to) {
  const std::int64_t blocks = ceil_div(s.in, B), plane = s.h * s.w * B;
  const std::int64_t stride = point_stride(strip.count, blocks * B), groups = strip.groups();
  Walk walk(s, strip), ahead = walk_ahead(s, strip);
  for (std::int64_t k = 0; k < blocks; ++k)
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t rows = strip.rows(group);
      float* at = to + (strip.start(group) * blocks + k * rows) * B;
      for (std::int64_t r = 0; r < rows; ++r, walk.next(), ahead.next()) {
        const Tile& tile = walk.tile();
        const Tile& later = ahead.tile();
        // The tiles above and to the left have read most of the other rows and columns of its
        // patch.
        prefetch_rows(x + (later.n * blocks + ahead.block()) * plane +
                          ((later.y - s.top + 2) * s.w + later.x - s.left + 2) * B,
                      s.w * B);
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

// Transforms B input channels of a kernel that is to be transposed and turned. Rows of `to` for
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

// Rows 0 and 2, or 1 and 3, of a tile; `to` is the first of them. height and width: rows and
// columns of the image from `to` on.
template <FusedActivation activation, bool non_temporal, void (*to_rows)(const V (&)[6], V&, V&),
          class T>
inline void output_half(const WinogradShape& s, const float* m, std::int64_t stride, V bias,
                        std::int64_t height, std::int64_t width, T* to) {
  V rows[2][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    V column[6];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) column[i] = load(m + (i * 6 + j) * stride);
    to_rows(column, rows[0][j], rows[1][j]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    if (2 * i >= height) continue;
    V out[4];
    even_output_rows(rows[i], out[0], out[2]);
    odd_output_rows(rows[i], out[1], out[3]);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      if (j >= width) continue;
      const V y = activate<activation>(out[j] + bias, s.alpha);
      T* pixel = to + (2 * i * s.ow + j) * B;
      if constexpr (non_temporal)
        store_non_temporal(pixel, y);
      else
        store(pixel, y);
    }
  }
}
template <FusedActivation activation, bool non_temporal, class T>
inline void transform_output_tile(const WinogradShape& s, const float* m, std::int64_t stride,
                                  V bias, const Tile& tile, T* plane) {
  const std::int64_t height = s.oh - tile.y, width = s.ow - tile.x;
  T* to = plane + (tile.y * s.ow + tile.x) * B;
  output_half<activation, non_temporal, even_output_rows>(s, m, stride, bias, height, width, to);
  to += s.ow * B;
  output_half<activation, non_temporal, odd_output_rows>(s, m, stride, bias, height - 1, width, to);
}

template <FusedActivation activation, bool non_temporal, class T>
inline void transform_output_strip(const WinogradShape& s, const Strip& strip, const float* m,
                                   const float* bias, std::int64_t n0, std::int64_t width, T* y) {
  const std::int64_t blocks = ceil_div(s.out, B), plane = s.oh * s.ow * B;
  for (std::int64_t n = 0; n < width; n += B) {
    const V b = bias == nullptr ? V{} : load_first(bias + n0 + n, s.out - n0 - n);
    Tile tile = tile_at(s, strip.first);
    for (std::int64_t t = 0; t < strip.count; ++t, next_tile(s, tile))
      transform_output_tile<activation, non_temporal>(s, m + t * kPoints * width + n, width, b,
                                                      tile,
                                                      y + (tile.n * blocks + (n0 + n) / B) * plane);
  }
}

// Output channels [n0, n0 + width) of a strip.
template <class T>
inline void transform_output(const WinogradShape& s, const Strip& strip, const float* m,
                             const float* bias, std::int64_t n0, std::int64_t width, T* y) {
  with_activation(s.activation, [&]<FusedActivation activation>() {
    if constexpr (sizeof(T) == sizeof(float))
      if (s.non_temporal)
        return transform_output_strip<activation, true>(s, strip, m, bias, n0, width, y);
    transform_output_strip<activation, false>(s, strip, m, bias, n0, width, y);
  });
}
