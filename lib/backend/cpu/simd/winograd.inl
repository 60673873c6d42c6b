// Convolutions 3x3 of stride 1 as Winograd's F(4x4, 3x3), forward and back to the input; see
// WinogradShape.

// ---- The products at one point: rows of tiles times a panel of output channels ----

constexpr std::int64_t kMaxRows = TRAINER_BLOCK == 16 ? 14 : 6;

// c = a b: a is [blocks, R, B], b [blocks * B, N * B], rows of c lie c_row apart. Every number is
// one sum in the order of the input channels, whatever R. Prefetches the operands of the next call:
// next_a, as large as a, and next_c.
template <int R, int N>
void multiply(const float* a, const float* b, float* c, std::int64_t blocks, std::int64_t c_row,
              const float* next_a, const float* next_c) {
  constexpr int kAhead = 16;  // rows of b
  V sum[R][N] = {};
  for (; blocks > 0; --blocks, a += R * B, b += B * N * B, next_a += R * B) {
    if (blocks == 1)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) __builtin_prefetch(next_c + r * c_row + n * B, 1);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) __builtin_prefetch(next_a + r * B);
#pragma GCC unroll 2
    for (int k = 0; k < B; ++k) {
      V row[N];
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) {
        __builtin_prefetch(b + ((k + kAhead) * N + n) * B);
        row[n] = load(b + (k * N + n) * B);
      }
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
inline Multiply select_multiply(std::int64_t rows) {
  switch (rows) {
    case 1:
      return multiply<1, N>;
    case 2:
      return multiply<2, N>;
    case 3:
      return multiply<3, N>;
    case 4:
      return multiply<4, N>;
    case 5:
      return multiply<5, N>;
    case 6:
      return multiply<6, N>;
#if TRAINER_BLOCK == 16
    case 7:
      return multiply<7, N>;
    case 8:
      return multiply<8, N>;
    case 9:
      return multiply<9, N>;
    case 10:
      return multiply<10, N>;
    case 11:
      return multiply<11, N>;
    case 12:
      return multiply<12, N>;
    case 13:
      return multiply<13, N>;
    case 14:
      return multiply<14, N>;
#endif
  }
  __builtin_unreachable();
}

// m [tile][point][width] = the products, `a` as transform_input() and `b` as transform_kernel()
// leave them.
inline void multiply_points(const Strip& strip, std::int64_t ins, std::int64_t width,
                            const float* a, const float* b, float* m) {
  const std::int64_t groups = strip.groups(), stride = point_stride(strip.count, ins);
  for (std::int64_t point = 0; point < kPoints; ++point) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t start = strip.start(group), rows = strip.rows(group);
      const std::int64_t next = group + 1 < groups ? strip.start(group + 1) : 0;
      const std::int64_t next_point = next > 0 ? point : point + 1;
      const Multiply run = width == kPanel ? select_multiply<2>(rows) : select_multiply<1>(rows);
      run(a + point * stride + start * ins, b + point * point_stride(ins, width),
          m + (start * kPoints + point) * width, ins / B, kPoints * width,
          a + next_point * stride + next * ins, m + (next * kPoints + next_point) * width);
    }
  }
}

// ---- The whole convolution ----

// The scratch, in floats: one panel of the transformed kernel, the panels that are kept, a strip's
// input and its products. The whole kernel is kept if several strips need it.
struct WinogradScratch {
  std::int64_t panel, kernel, input, products;
};
inline WinogradScratch count_scratch(const WinogradShape& s) {
  const std::int64_t ins = round_up(s.in), tiles = max_tiles(s);
  const std::int64_t panel = kPoints * point_stride(ins, kPanel);
  const std::int64_t panels = count_strips(s) > 1 ? ceil_div(s.out_end - s.out_begin, kPanel) : 1;
  return {panel, panel * panels, kPoints * point_stride(tiles, ins), kPoints * kPanel * tiles};
}

std::int64_t winograd_scratch(const WinogradShape& s) {
  const WinogradScratch scratch = count_scratch(s);
  return scratch.kernel + scratch.input + scratch.products;
}

template <class T>
void winograd(const WinogradShape& s, const T* x, const float* kernel, const float* bias, T* y,
              float* scratch) {
  const WinogradScratch sizes = count_scratch(s);
  float* products = scratch + sizes.kernel;
  float* input = products + sizes.products;
  const std::int64_t end = round_up(s.out_end), strips = count_strips(s);
  for (std::int64_t i = 0; i < strips; ++i) {
    const Strip strip = strip_at(s, i, kMaxRows);
    transform_input(s, strip, x, input);
    for (std::int64_t n = s.out_begin; n < end; n += kPanel) {
      const std::int64_t width = least(kPanel, end - n);
      float* panel = scratch + (strips > 1 ? (n - s.out_begin) / kPanel * sizes.panel : 0);
      if (i == 0) transform_kernel(s, kernel, n, width, panel);
      multiply_points(strip, round_up(s.in), width, input, panel, products);
      transform_output(s, strip, products, bias, n, width, y);
    }
  }
  if (s.non_temporal) fence_non_temporal_stores();
}
