// A convolution is a sum of matrix products, one for each tap and 32 input channels:
// pixels by input channels times input channels by output channels. Images are packed so that the
// 16 rows of a tile, one per pixel, lie evenly apart for every tap: the tap only moves the
// beginning.
#include "backend/cpu/simd/amx.h"

#include <immintrin.h>

#include <utility>  // std::index_sequence, which has no code

#define TRAINER_BLOCK 16

namespace trainer::backend::cpu::simd::amx {
namespace {
// No header with inline functions may be included here: the linker could keep this instruction
// set's copy for everyone.
#include "backend/cpu/simd/vector.inl"

constexpr std::int64_t kRow = 32;           // numbers in a row of a tile
constexpr std::int64_t kTile = 16 * kRow;   // numbers of a tile
constexpr std::int64_t kSums = 16 * 16;     // floats of a tile
constexpr std::int64_t kPanel = kAmxPanel;  // output channels of two tiles side by side

using Pixels = __m512i;  // 32 numbers of 16 bits

inline Pixels load_row(const void* p) { return _mm512_loadu_si512(p); }
inline void store_row(BFloat16* p, Pixels row) { _mm512_storeu_si512(p, row); }

// The tiles' shapes for as long as this lives: all eight are 16 rows of 64 bytes.
class Tiles {
 public:
  Tiles() { _tile_loadconfig(&kConfig); }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

 private:
  struct alignas(64) Config {
    std::uint8_t palette, start_row, reserved[14];
    std::uint16_t row_bytes[16];
    std::uint8_t rows[16];
  };
  // It is static, because GCC 12 assumes that the intrinsic reads eight bytes and stores no more of
  // a local variable.
  static constexpr Config kConfig{
      1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
};

// a0 a1 .. a15 b0 b1 .. b15 to a0 b0 a1 b1 ...
inline Pixels in_turn(Pixels both) {
  const Pixels order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                        8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, both);
}

// ---- How images are packed ----

// A part of the images of a call: whole images, or rows of one image.
struct Strip {
  std::int64_t image, images, row, rows;  // of the output
};

// A packed image has its rows `pitch` pixels apart. What pads a row on its right also pads the next
// one on its left. Output pixel `p` at p = row * pitch + column reads p + tap(i, j) for tap i, j.
struct Packing {
  std::int64_t images, rows;  // of the largest strip
  std::int64_t pitch, reach;  // reach: of the last tap
  std::int64_t pixels;        // of a packed image, with what tiles read beyond its end
  std::int64_t columns;       // of x that are read

  std::int64_t span(std::int64_t strip_rows, const AmxShape& s) const {
    return (strip_rows - 1) * pitch + s.ow;
  }
};

inline std::int64_t greatest(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
inline std::int64_t round_to(std::int64_t a, std::int64_t step) { return ceil_div(a, step) * step; }

inline Packing make_packing(const AmxShape& s, std::int64_t rows) {
  const std::int64_t padded = s.ow + (s.kw - 1) * s.dw;
  Packing p{};
  p.rows = rows;
  p.columns = greatest(0, least(s.w, padded - s.left));
  p.pitch = greatest(greatest(s.ow, s.left + p.columns), padded - s.left);
  p.reach = (s.kh - 1) * s.dh * p.pitch + (s.kw - 1) * s.dw;
  const std::int64_t in_rows = rows + (s.kh - 1) * s.dh;
  // An odd number of 32: rows of 64 bytes that lie evenly apart spread over all sets of the cache.
  const std::int64_t needed =
      greatest(in_rows * p.pitch, round_to(p.span(rows, s), kRow) + p.reach);
  p.pixels = (ceil_div(needed, kRow) | 1) * kRow;
  p.images = 1;
  return p;
}

// Returns the packing of as many images, or rows of one image, as take `limit` bytes with
// `pixel_bytes` per packed pixel.
inline Packing fit(const AmxShape& s, std::int64_t limit, std::int64_t pixel_bytes) {
  Packing p = make_packing(s, s.oh);
  const std::int64_t image = p.pixels * pixel_bytes;
  if (image <= limit) {
    p.images = least(s.n, limit / image);
    return p;
  }
  const std::int64_t halo = p.reach + 2 * kRow;
  const std::int64_t fitting = greatest(1, (limit / pixel_bytes - halo) / p.pitch);
  const std::int64_t strips = ceil_div(s.oh, least(fitting, s.oh));
  return make_packing(s, ceil_div(s.oh, strips));
}

template <class F>
inline void each_strip(const AmxShape& s, const Packing& p, F&& f) {
  for (std::int64_t image = 0; image < s.n; image += p.images)
    for (std::int64_t row = 0; row < s.oh; row += p.rows)
      f(Strip{image, least(p.images, s.n - image), row, least(p.rows, s.oh - row)});
}

inline std::int64_t count_chunks(const AmxShape& s) { return ceil_div(s.in, kRow); }
inline std::int64_t count_taps(const AmxShape& s) { return s.kh * s.kw; }

inline void zero(BFloat16* p, std::int64_t count) {
  if (count > 0) __builtin_memset(p, 0, count * sizeof *p);
}

// 32 channels of the rows that a strip reads of one image, [p.pixels][32], zeros around. `low` and
// `high` are the planes of the two blocks of channels; `high` may be null.
inline void pack_chunk(const AmxShape& s, const Packing& p, const Strip& strip, const BFloat16* low,
                       const BFloat16* high, BFloat16* to) {
  const BFloat16* const end = to + p.pixels * kRow;
  const std::int64_t in_rows = strip.rows + (s.kh - 1) * s.dh;
  for (std::int64_t r = 0; r < in_rows; ++r) {
    const std::int64_t y = strip.row + r - s.top;
    if (y < 0 || y >= s.h) {
      zero(to, p.pitch * kRow);
      to += p.pitch * kRow;
      continue;
    }
    zero(to, s.left * kRow);
    to += s.left * kRow;
    for (std::int64_t x = 0; x < p.columns; ++x, to += kRow) {
      const std::int64_t at = (y * s.w + x) * B;
      const auto half = [at](const BFloat16* from) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
      };
      const Pixels row = _mm512_zextsi256_si512(half(low));
      store_row(to, high == nullptr ? row : _mm512_inserti64x4(row, half(high), 1));
    }
    const std::int64_t gap = p.pitch - s.left - p.columns;
    zero(to, gap * kRow);
    to += gap * kRow;
  }
  zero(to, end - to);
}

inline void pack_chunk(const AmxShape& s, const Packing& p, const Strip& strip, const BFloat16* x,
                       std::int64_t image, std::int64_t chunk, BFloat16* to) {
  const std::int64_t blocks = ceil_div(s.in, B), plane = s.h * s.w * B;
  const BFloat16* low = x + (image * blocks + 2 * chunk) * plane;
  pack_chunk(s, p, strip, low, 2 * chunk + 1 < blocks ? low + plane : nullptr, to);
}

// ---- The kernel ----

// Returns the numbers of rows a and b in turn.
inline Pixels rounded_pairs(V a, V b) {
  return in_turn(reinterpret_cast<Pixels>(_mm512_cvtne2ps_pbh(b, a)));
}

// One tile: 32 input channels from k, in pairs, by 16 output channels from n.
inline void pack_tile(const AmxShape& s, const float* kernel, std::int64_t tap, std::int64_t k,
                      std::int64_t n, BFloat16* to) {
  if (!s.transposed) {
    const auto row = [&](std::int64_t i) {
      return i < s.in ? load_first(kernel + (tap * s.in + i) * s.out + n, s.out - n) : V{};
    };
    for (std::int64_t r = 0; r < 16; ++r)
      store_row(to + r * kRow, rounded_pairs(row(k + 2 * r), row(k + 2 * r + 1)));
    return;
  }
  V rows[16];
  for (std::int64_t o = 0; o < 16; ++o) {
    const float* from = kernel + ((count_taps(s) - 1 - tap) * s.out + n + o) * s.in + k;
    const bool inside = n + o < s.out;
    const V low = inside ? load_first(from, s.in - k) : V{};
    const V high = inside && s.in - k > B ? load_first(from + B, s.in - k - B) : V{};
    rows[o] = reinterpret_cast<V>(_mm512_cvtne2ps_pbh(high, low));
  }
  transpose_step<1>(rows);
  for (std::int64_t r = 0; r < 16; ++r) store_row(to + r * kRow, reinterpret_cast<Pixels>(rows[r]));
}

std::int64_t kernel_bytes(const AmxShape& s) {
  return count_taps(s) * count_chunks(s) * ceil_div(s.out, B) * kTile * 2;
}

// [panel][tap][chunk][tile of the panel]
void pack_kernel(const AmxShape& s, const float* kernel, BFloat16* to) {
  for (std::int64_t panel = 0; panel < s.out; panel += kPanel)
    for (std::int64_t tap = 0; tap < count_taps(s); ++tap)
      for (std::int64_t chunk = 0; chunk < count_chunks(s); ++chunk)
        for (std::int64_t n = panel; n < least(panel + kPanel, s.out); n += B, to += kTile)
          pack_tile(s, kernel, tap, chunk * kRow, n, to);
}

// ---- Forward, and back to the input ----

// Sums of 16 or 32 pixels, from a0 and a1, and one or two tiles of outputs: sums [2 * pixels / 16 +
// outputs] [16][16]. Step i reads a0 and a1 from offsets[i] on.
template <bool two_pixels, bool two_outputs>
void multiply(const BFloat16* a0, const BFloat16* a1, const std::int64_t* offsets,
              std::int64_t steps, const BFloat16* b, float* sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t i = 0; i < steps; ++i) {
    _tile_loadd(6, b, 64);
    _tile_loadd(4, a0 + offsets[i], 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (two_outputs) {
      _tile_loadd(7, b + kTile, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (two_pixels) {
      _tile_loadd(5, a1 + offsets[i], 64);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (two_outputs) _tile_dpbf16ps(3, 5, 7);
    }
    b += two_outputs ? 2 * kTile : kTile;
  }
  _tile_stored(0, sums, 64);
  if constexpr (two_outputs) _tile_stored(1, sums + kSums, 64);
  if constexpr (two_pixels) {
    _tile_stored(2, sums + 2 * kSums, 64);
    if constexpr (two_outputs) _tile_stored(3, sums + 3 * kSums, 64);
  }
}

// Writes 16 pixels from `first` of a strip's image to `plane`, where its rows begin.
template <FusedActivation activation>
inline void finish(const AmxShape& s, const Packing& p, std::int64_t rows, const float* sums,
                   V bias, std::int64_t first, BFloat16* plane) {
  std::int64_t row = first / p.pitch, column = first % p.pitch;
  for (std::int64_t i = 0; i < 16 && row < rows; ++row, column = 0) {
    BFloat16* to = plane + (row * s.ow + column - i) * B;
    for (const std::int64_t end = least(16, i + s.ow - column); i < end; ++i) {
      const V v = activate<activation>(load(sums + i * B) + bias, s.alpha);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * B),
                          reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
    }
    const std::int64_t next = (row + 1) * p.pitch - first;
    if (next > i) i = next;
  }
}

// The arguments of one call of convolution() and its packed images.
struct Forward {
  const AmxShape& s;
  const Packing& p;
  const std::int64_t* offsets;
  const BFloat16* packed;  // [image][chunk][pixel][32]
  float* sums;

  const BFloat16* tile(std::int64_t image, std::int64_t first) const {
    return packed + (image * count_chunks(s) * p.pixels + first) * kRow;
  }
};

// All pixels of a strip, output channels from n: one tile of them or two.
template <bool two_outputs, FusedActivation activation>
void compute_panel(const Forward& f, const Strip& strip, std::int64_t n, const BFloat16* kernel,
                   const float* bias, BFloat16* y) {
  const AmxShape& s = f.s;
  const std::int64_t tiles = ceil_div(f.p.span(strip.rows, s), 16), all = tiles * strip.images;
  const std::int64_t steps = count_taps(s) * count_chunks(s), blocks = ceil_div(s.out, B);
  constexpr std::int64_t kOutputs = two_outputs ? 2 : 1;
  V biases[2] = {};
  for (std::int64_t o = 0; o < kOutputs && bias != nullptr; ++o)
    biases[o] = load_first(bias + n + o * B, s.out - n - o * B);
  const auto run = [&](std::int64_t tile, std::int64_t count) {
    const auto at = [&](std::int64_t i) { return f.tile(i / tiles, i % tiles * 16); };
    if (count == 2) {
      multiply<true, two_outputs>(at(tile), at(tile + 1), f.offsets, steps, kernel, f.sums);
    } else {
      multiply<false, two_outputs>(at(tile), nullptr, f.offsets, steps, kernel, f.sums);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t image = strip.image + (tile + i) / tiles;
      for (std::int64_t o = 0; o < kOutputs; ++o) {
        BFloat16* plane = y + ((image * blocks + n / B + o) * s.oh + strip.row) * s.ow * B;
        finish<activation>(s, f.p, strip.rows, f.sums + (2 * i + o) * kSums, biases[o],
                           (tile + i) % tiles * 16, plane);
      }
    }
  };
  std::int64_t tile = 0;
  for (; tile + 2 <= all; tile += 2) run(tile, 2);
  if (tile < all) run(tile, 1);
}

// Bytes of a strip: with a kernel that fills the cache, long ones, so that it is read less often.
constexpr std::int64_t kShortStrip = 128 << 10, kLongStrip = 768 << 10, kSmallKernel = 512 << 10;

inline Packing make_packing(const AmxShape& s) {
  return fit(s, kernel_bytes(s) <= kSmallKernel ? kShortStrip : kLongStrip,
             count_chunks(s) * kRow * 2);
}
inline std::int64_t offsets_bytes(const AmxShape& s) {
  return round_to(count_taps(s) * count_chunks(s) * 8, 64);
}

std::int64_t scratch_bytes(const AmxShape& s) {
  const Packing p = make_packing(s);
  return 4 * kSums * 4 + offsets_bytes(s) + p.images * count_chunks(s) * p.pixels * kRow * 2;
}

void convolution(const AmxShape& s, const BFloat16* x, const BFloat16* packed_kernel,
                 const float* bias, BFloat16* y, char* scratch) {
  const Tiles configured;
  const Packing p = make_packing(s);
  const std::int64_t chunks = count_chunks(s);
  float* sums = reinterpret_cast<float*>(scratch);
  auto* offsets = reinterpret_cast<std::int64_t*>(scratch + 4 * kSums * 4);
  auto* packed = reinterpret_cast<BFloat16*>(scratch + 4 * kSums * 4 + offsets_bytes(s));
  for (std::int64_t tap = 0; tap < count_taps(s); ++tap)
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      offsets[tap * chunks + chunk] =
          (chunk * p.pixels + tap / s.kw * s.dh * p.pitch + tap % s.kw * s.dw) * kRow;
  const Forward f{s, p, offsets, packed, sums};
  const std::int64_t tile_numbers = count_taps(s) * chunks * kTile;
  each_strip(s, p, [&](const Strip& strip) {
    for (std::int64_t i = 0; i < strip.images; ++i)
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
        pack_chunk(s, p, strip, x, strip.image + i, chunk,
                   packed + (i * chunks + chunk) * p.pixels * kRow);
    with_activation(s.activation, [&]<FusedActivation activation>() {
      for (std::int64_t n = 0; n < s.out; n += kPanel) {
        const auto run =
            s.out - n > B ? compute_panel<true, activation> : compute_panel<false, activation>;
        run(f, strip, n, packed_kernel + n / B * tile_numbers, bias, y);
      }
    });
  });
}

// ---- The gradient of the kernel: input channels by pixels times pixels by output channels ----

// Swaps pixels and channels of [32][32] numbers; rows of `to` lie `row` apart.
inline void transpose(const BFloat16* from, BFloat16* to, std::int64_t row) {
  V even[16], odd[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const auto a = reinterpret_cast<U>(load_row(from + 2 * i * kRow));
    const auto b = reinterpret_cast<U>(load_row(from + (2 * i + 1) * kRow));
    even[i] = reinterpret_cast<V>((a & 0xFFFFu) | (b << 16));
    odd[i] = reinterpret_cast<V>((a >> 16) | (b & 0xFFFF0000u));
  }
  transpose_step<1>(even);
  for (int i = 0; i < 16; ++i) store_row(to + 2 * i * row, reinterpret_cast<Pixels>(even[i]));
  transpose_step<1>(odd);
  for (int i = 0; i < 16; ++i) store_row(to + (2 * i + 1) * row, reinterpret_cast<Pixels>(odd[i]));
}

// One block of a strip's gradient with the pitch of x, zeros between: pairs of pixels, [pixels /
// 2][16][2]. Returns `sum` plus the sum over pixels.
inline V pack_gradient(const AmxShape& s, const Packing& p, const Strip& strip,
                       const BFloat16* plane, std::int64_t pixels, BFloat16* flat, BFloat16* to,
                       V sum) {
  BFloat16* at = flat;
  for (std::int64_t r = 0; r < strip.rows; ++r, at += p.pitch * B) {
    const BFloat16* from = plane + (strip.row + r) * s.ow * B;
    __builtin_memcpy(at, from, static_cast<std::size_t>(s.ow * B) * sizeof *from);
    zero(at + s.ow * B, least((p.pitch - s.ow) * B, flat + pixels * B - at - s.ow * B));
  }
  zero(at, flat + pixels * B - at);
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3F80));
  for (std::int64_t i = 0; i < pixels / 2; ++i) {
    const Pixels pair = in_turn(load_row(flat + i * kRow));
    sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(pair), ones);
    store_row(to + i * kRow, pair);
  }
  return sum;
}

// The operands of a strip's products: a [image][chunk][32 channels][pixels], b
// [image][tile][step][16][32].
struct Correlation {
  const BFloat16* a;
  const BFloat16* b;
  std::int64_t images, a_image, a_row, b_image, b_tile, steps;
  std::int64_t c_row;
  bool add;  // adds to the content of c
};

// c [16 or 32 input channels][16 or 32 output channels] of one tap.
template <bool two_inputs, bool two_outputs>
void correlate(const Correlation& k, const BFloat16* a, const BFloat16* b, float* c) {
  const std::int64_t c_row = k.c_row * 4, a_row = k.a_row * 2;
  if (k.add) {
    _tile_loadd(0, c, c_row);
    if constexpr (two_outputs) _tile_loadd(1, c + 16, c_row);
    if constexpr (two_inputs) _tile_loadd(2, c + 16 * k.c_row, c_row);
    if constexpr (two_inputs && two_outputs) _tile_loadd(3, c + 16 * k.c_row + 16, c_row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t image = 0; image < k.images; ++image, a += k.a_image, b += k.b_image) {
    for (std::int64_t i = 0; i < k.steps; ++i) {
      _tile_loadd(6, b + i * kTile, 64);
      _tile_loadd(4, a + i * kRow, a_row);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (two_outputs) {
        _tile_loadd(7, b + k.b_tile + i * kTile, 64);
        _tile_dpbf16ps(1, 4, 7);
      }
      if constexpr (two_inputs) {
        _tile_loadd(5, a + 16 * k.a_row + i * kRow, a_row);
        _tile_dpbf16ps(2, 5, 6);
        if constexpr (two_outputs) _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
  _tile_stored(0, c, c_row);
  if constexpr (two_outputs) _tile_stored(1, c + 16, c_row);
  if constexpr (two_inputs) _tile_stored(2, c + 16 * k.c_row, c_row);
  if constexpr (two_inputs && two_outputs) _tile_stored(3, c + 16 * k.c_row + 16, c_row);
}

// Bytes of two tiles' inputs and gradients of a strip: short when the sums of all taps stay in the
// cache.
constexpr std::int64_t kShortPair = 64 << 10, kLongPair = 512 << 10, kSmallSums = 512 << 10;

struct WeightsScratch {
  Packing p;
  std::int64_t pixels;                                       // of a gradient's block, packed
  std::int64_t inputs, gradients, packed, flat, sums, bias;  // bytes
  bool direct;                                               // sums lie in the result itself
};

inline WeightsScratch weights_scratch(const AmxShape& s) {
  const std::int64_t sums = count_taps(s) * round_up(s.in) * round_up(s.out) * 4;
  WeightsScratch w{};
  w.p = fit(s, sums <= kSmallSums ? kShortPair : kLongPair, 2 * kRow * 2);
  w.pixels = round_to(w.p.span(w.p.rows, s), kRow);
  w.inputs = w.p.images * count_chunks(s) * kRow * w.p.pixels * 2;
  w.gradients = w.p.images * ceil_div(s.out_end - s.out_begin, B) * w.pixels * B * 2;
  w.packed = w.p.pixels * kRow * 2;
  w.flat = w.pixels * B * 2;
  w.direct = s.in % B == 0 && s.out % B == 0;
  w.sums = w.direct ? 0 : sums;
  w.bias = ceil_div(s.out_end - s.out_begin, B) * B * 4;
  return w;
}

std::int64_t weights_scratch_bytes(const AmxShape& s) {
  const WeightsScratch w = weights_scratch(s);
  return w.inputs + w.gradients + w.packed + w.flat + w.sums + w.bias;
}

// All taps of all input channels, output channels [n, n + 16 or 32).
template <bool two_outputs>
void correlate_panel(const AmxShape& s, const Packing& p, const Correlation& k, std::int64_t n,
                     std::int64_t ins, float* sums) {
  for (std::int64_t m = 0; m < s.in; m += kRow) {
    const auto run = s.in - m > B ? correlate<true, two_outputs> : correlate<false, two_outputs>;
    for (std::int64_t tap = 0; tap < count_taps(s); ++tap) {
      const std::int64_t shift = tap / s.kw * s.dh * p.pitch + tap % s.kw * s.dw;
      run(k, k.a + m * k.a_row + shift, k.b + (n - s.out_begin) / B * k.b_tile,
          sums + (tap * ins + m) * k.c_row + n);
    }
  }
}

void weights(const AmxShape& s, const BFloat16* x, const BFloat16* dy, float* dkernel, float* dbias,
             char* scratch) {
  const Tiles configured;
  const WeightsScratch w = weights_scratch(s);
  const Packing& p = w.p;
  auto* inputs = reinterpret_cast<BFloat16*>(scratch);
  auto* gradients = reinterpret_cast<BFloat16*>(scratch + w.inputs);
  auto* packed = gradients + w.gradients / 2;
  auto* flat = packed + w.packed / 2;
  float* bias = reinterpret_cast<float*>(flat + w.flat / 2);
  float* sums = w.direct ? dkernel : bias + w.bias / 4;
  const std::int64_t ins = w.direct ? s.in : round_up(s.in),
                     outs = w.direct ? s.out : round_up(s.out);
  const std::int64_t chunks = count_chunks(s), blocks = ceil_div(s.out, B);
  const std::int64_t tiles = ceil_div(s.out_end - s.out_begin, B);
  __builtin_memset(bias, 0, w.bias);

  Correlation k{inputs,
                gradients,
                0,
                chunks * kRow * p.pixels,
                p.pixels,
                tiles * w.pixels * B,
                w.pixels * B,
                0,
                outs,
                false};
  each_strip(s, p, [&](const Strip& strip) {
    for (std::int64_t i = 0; i < strip.images; ++i) {
      const std::int64_t image = strip.image + i;
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        pack_chunk(s, p, strip, x, image, chunk, packed);
        for (std::int64_t first = 0; first < p.pixels; first += kRow)
          transpose(packed + first * kRow, inputs + (i * chunks + chunk) * kRow * p.pixels + first,
                    p.pixels);
      }
      for (std::int64_t t = 0; t < tiles; ++t) {
        const BFloat16* plane = dy + (image * blocks + s.out_begin / B + t) * s.oh * s.ow * B;
        BFloat16* to = gradients + i * k.b_image + t * k.b_tile;
        store(bias + t * B,
              pack_gradient(s, p, strip, plane, w.pixels, flat, to, load(bias + t * B)));
      }
    }
    k.images = strip.images;
    k.steps = ceil_div(p.span(strip.rows, s), kRow);
    for (std::int64_t n = s.out_begin; n < s.out_end; n += kPanel)
      (s.out_end - n > B ? correlate_panel<true> : correlate_panel<false>)(s, p, k, n, ins, sums);
    k.add = true;
  });

  for (std::int64_t n = s.out_begin; n < s.out_end; n += B) {
    if (dbias != nullptr) store_first(dbias + n, load(bias + n - s.out_begin), s.out - n);
    for (std::int64_t row = 0; row < count_taps(s) * s.in && !w.direct; ++row)
      store_first(dkernel + row * s.out + n,
                  load(sums + (row / s.in * ins + row % s.in) * outs + n), s.out - n);
  }
}

}  // namespace

extern const AmxKernels kTable;
const AmxKernels kTable = {
    .kernel_bytes = kernel_bytes,
    .pack_kernel = pack_kernel,
    .convolution = convolution,
    .scratch_bytes = scratch_bytes,
    .weights = weights,
    .weights_scratch_bytes = weights_scratch_bytes,
};

}  // namespace trainer::backend::cpu::simd::amx
