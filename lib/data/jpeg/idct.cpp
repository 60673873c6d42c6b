// The accurate integer inverse DCT of libjpeg (Loeffler, Ligtenberg and Moschytz, 11
// multiplications) and its forms for 4x4 and 2x2 samples, with the widths of the SIMD code of
// libjpeg-turbo: 16-bit products and sums that wrap, 32-bit sums of pairs, saturation between the
// passes. Two blocks are side by side in a vector, one in each 128-bit half. Compiled for AVX2.
// Inline functions of other headers must not be used here, as the linker could keep this copy of
// them for all callers.
#include <immintrin.h>

#include "data/jpeg/kernels.h"

namespace trainer::data::jpeg {
namespace {

using Vector = __m256i;

constexpr int fix(double x) { return static_cast<int>(x * 8192 + 0.5); }
constexpr int kF0211 = fix(0.211164243), kF0298 = fix(0.298631336), kF0390 = fix(0.390180644),
              kF0509 = fix(0.509795579), kF0541 = fix(0.541196100), kF0601 = fix(0.601344887),
              kF0720 = fix(0.720959822), kF0765 = fix(0.765366865), kF0850 = fix(0.850430095),
              kF0899 = fix(0.899976223), kF1061 = fix(1.061594337), kF1175 = fix(1.175875602),
              kF1272 = fix(1.272758580), kF1451 = fix(1.451774981), kF1501 = fix(1.501321110),
              kF1847 = fix(1.847759065), kF1961 = fix(1.961570560), kF2053 = fix(2.053119869),
              kF2172 = fix(2.172734803), kF2562 = fix(2.562915447), kF3072 = fix(3.072711026),
              kF3624 = fix(3.624509785);

Vector load(const std::int16_t* p) { return _mm256_load_si256(reinterpret_cast<const Vector*>(p)); }
// Returns a * x + b * y of words interleaved as x, y.
Vector multiply(Vector pairs, int a, int b) {
  return _mm256_madd_epi16(pairs, _mm256_set1_epi32((a & 0xFFFF) | b * 65536));
}
Vector add(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
Vector sub(Vector a, Vector b) { return _mm256_sub_epi32(a, b); }

template <bool kHigh>
Vector interleave(Vector a, Vector b) {
  return kHigh ? _mm256_unpackhi_epi16(a, b) : _mm256_unpacklo_epi16(a, b);
}
// Returns words widened to 32 bits and shifted up.
template <bool kHigh, int kUp>
Vector widened(Vector words) {
  return _mm256_srai_epi32(interleave<kHigh>(_mm256_setzero_si256(), words), 16 - kUp);
}

void clear(std::int16_t* pair, int rows = 8) {
  for (int row = 0; row < rows; ++row) {
    _mm256_store_si256(reinterpret_cast<Vector*>(pair + 16 * row), _mm256_setzero_si256());
  }
}

// Returns all ones in the half of a block whose `words` are all zeros.
Vector blocks_of_zeros(Vector words) {
  const Vector zero = _mm256_cmpeq_epi64(words, _mm256_setzero_si256());
  return _mm256_and_si256(zero, _mm256_shuffle_epi32(zero, 0x4E));
}

// Dequantises the first kRows rows of both blocks except row kUnused, which becomes zeros. Returns
// all ones in the half of a block that has coefficients only in its first row.
template <int kRows, int kUnused = kRows>
[[gnu::always_inline]] inline Vector dequantise(const std::int16_t* pair, const std::int16_t* table,
                                                Vector (&rows)[kRows]) {
  Vector below = _mm256_setzero_si256();
  for (int row = 0; row < kRows; ++row) {
    if (row == kUnused) {
      rows[row] = _mm256_setzero_si256();
      continue;
    }
    const Vector coefficients = load(pair + 16 * row);
    rows[row] = _mm256_mullo_epi16(coefficients, load(table + 16 * row));
    if (row > 0) below = _mm256_or_si256(below, coefficients);
  }
  return blocks_of_zeros(below);
}

// ---- 8 x 8 ----

// Sets out[i] and out[7 - i] to even[i] +- odd[i], shifted down.
template <int kDown>
[[gnu::always_inline]] inline void butterfly8(const Vector (&even)[4], const Vector (&odd)[4],
                                              Vector (&out)[8]) {
  for (int i = 0; i < 4; ++i) {
    out[i] = _mm256_srai_epi32(add(even[i], odd[i]), kDown);
    out[7 - i] = _mm256_srai_epi32(sub(even[i], odd[i]), kDown);
  }
}

// Transforms one half of the columns of in[0..7] to 32-bit out[0..7], shifted down.
template <bool kHigh, int kDown>
[[gnu::always_inline]] inline void transform_half(const Vector (&in)[8], Vector (&out)[8]) {
  const Vector half = _mm256_set1_epi32(1 << (kDown - 1));
  const Vector in26 = interleave<kHigh>(in[2], in[6]);
  const Vector even2 = multiply(in26, kF0541, kF0541 - kF1847);
  const Vector even3 = multiply(in26, kF0541 + kF0765, kF0541);
  const Vector even0 = add(widened<kHigh, 13>(_mm256_add_epi16(in[0], in[4])), half);
  const Vector even1 = add(widened<kHigh, 13>(_mm256_sub_epi16(in[0], in[4])), half);
  const Vector sum0 = add(even0, even3), sum3 = sub(even0, even3);
  const Vector sum1 = add(even1, even2), sum2 = sub(even1, even2);

  const Vector in34 =
      interleave<kHigh>(_mm256_add_epi16(in[7], in[3]), _mm256_add_epi16(in[5], in[1]));
  const Vector z3 = multiply(in34, kF1175 - kF1961, kF1175);
  const Vector z4 = multiply(in34, kF1175, kF1175 - kF0390);
  const Vector in71 = interleave<kHigh>(in[7], in[1]), in53 = interleave<kHigh>(in[5], in[3]);
  const Vector odd0 = add(multiply(in71, kF0298 - kF0899, -kF0899), z3);
  const Vector odd1 = add(multiply(in53, kF2053 - kF2562, -kF2562), z4);
  const Vector odd2 = add(multiply(in53, -kF2562, kF3072 - kF2562), z3);
  const Vector odd3 = add(multiply(in71, -kF0899, kF1501 - kF0899), z4);

  butterfly8<kDown>({sum0, sum1, sum2, sum3}, {odd3, odd2, odd1, odd0}, out);
}

// The same for in[4..7] of zeros.
template <bool kHigh, int kDown>
[[gnu::always_inline]] inline void transform_half(const Vector (&in)[4], Vector (&out)[8]) {
  const Vector half = _mm256_set1_epi32(1 << (kDown - 1));
  const Vector in02 = interleave<kHigh>(in[0], in[2]), in13 = interleave<kHigh>(in[1], in[3]);
  const Vector sum0 = add(multiply(in02, 8192, kF0541 + kF0765), half);
  const Vector sum3 = add(multiply(in02, 8192, -kF0541 - kF0765), half);
  const Vector sum1 = add(multiply(in02, 8192, kF0541), half);
  const Vector sum2 = add(multiply(in02, 8192, -kF0541), half);
  const Vector odd0 = multiply(in13, kF1175 - kF0899, kF1175 - kF1961);
  const Vector odd1 = multiply(in13, kF1175 - kF0390, kF1175 - kF2562);
  const Vector odd2 = multiply(in13, kF1175, kF3072 - kF2562 + kF1175 - kF1961);
  const Vector odd3 = multiply(in13, kF1501 - kF0899 + kF1175 - kF0390, kF1175);
  butterfly8<kDown>({sum0, sum1, sum2, sum3}, {odd3, odd2, odd1, odd0}, out);
}

template <int kDown, int kRows>
[[gnu::always_inline]] inline void transform(const Vector (&in)[kRows], Vector (&out)[8]) {
  Vector low[8], high[8];
  transform_half<false, kDown>(in, low);
  transform_half<true, kDown>(in, high);
  for (int i = 0; i < 8; ++i) out[i] = _mm256_packs_epi32(low[i], high[i]);
}

// Sets out[i] to columns 2i and 2i + 1 of four rows, one after the other.
[[gnu::always_inline]] inline void pair_columns(Vector row0, Vector row1, Vector row2, Vector row3,
                                                Vector (&out)[4]) {
  const Vector left01 = _mm256_unpacklo_epi16(row0, row1);
  const Vector right01 = _mm256_unpackhi_epi16(row0, row1);
  const Vector left23 = _mm256_unpacklo_epi16(row2, row3);
  const Vector right23 = _mm256_unpackhi_epi16(row2, row3);
  out[0] = _mm256_unpacklo_epi32(left01, left23);
  out[1] = _mm256_unpackhi_epi32(left01, left23);
  out[2] = _mm256_unpacklo_epi32(right01, right23);
  out[3] = _mm256_unpackhi_epi32(right01, right23);
}

[[gnu::always_inline]] inline void transpose(Vector (&r)[8]) {
  Vector upper[4], lower[4];
  pair_columns(r[0], r[1], r[2], r[3], upper);
  pair_columns(r[4], r[5], r[6], r[7], lower);
  for (int i = 0; i < 4; ++i) {
    r[2 * i] = _mm256_unpacklo_epi64(upper[i], lower[i]);
    r[2 * i + 1] = _mm256_unpackhi_epi64(upper[i], lower[i]);
  }
}

// Converts words around 0 to samples.
Vector to_samples(Vector a, Vector b) {
  return _mm256_xor_si256(_mm256_packs_epi16(a, b), _mm256_set1_epi8(-128));
}

// Converts columns of words to rows of bytes: out[i] has rows 2i and 2i + 1 of each block.
[[gnu::always_inline]] inline void to_rows(const Vector (&c)[8], Vector (&out)[4]) {
  const Vector c04 = to_samples(c[0], c[4]), c15 = to_samples(c[1], c[5]);
  const Vector c26 = to_samples(c[2], c[6]), c37 = to_samples(c[3], c[7]);
  const Vector c02 = _mm256_unpacklo_epi8(c04, c26), c46 = _mm256_unpackhi_epi8(c04, c26);
  const Vector c13 = _mm256_unpacklo_epi8(c15, c37), c57 = _mm256_unpackhi_epi8(c15, c37);
  const Vector left0 = _mm256_unpacklo_epi8(c02, c13), left1 = _mm256_unpackhi_epi8(c02, c13);
  const Vector right0 = _mm256_unpacklo_epi8(c46, c57), right1 = _mm256_unpackhi_epi8(c46, c57);
  out[0] = _mm256_unpacklo_epi32(left0, right0);
  out[1] = _mm256_unpackhi_epi32(left0, right0);
  out[2] = _mm256_unpacklo_epi32(left1, right1);
  out[3] = _mm256_unpackhi_epi32(left1, right1);
}

// Returns the sample of a block that has only the first coefficient.
int plain_sample(std::int16_t coefficient, std::int16_t quant) {
  const auto first = static_cast<std::int16_t>(coefficient * quant);
  const int value = (static_cast<std::int16_t>(static_cast<std::uint16_t>(first) << 2) + 16) >> 5;
  return (value < -128 ? -128 : value > 127 ? 127 : value) + 128;
}

void store_plain8(std::int16_t* pair, const std::int16_t* table, std::uint8_t* out,
                  std::ptrdiff_t stride) {
  const __m128i row =
      _mm_unpacklo_epi64(_mm_set1_epi8(static_cast<char>(plain_sample(pair[0], table[0]))),
                         _mm_set1_epi8(static_cast<char>(plain_sample(pair[kPairLane], table[0]))));
  for (int y = 0; y < 8; ++y, out += stride) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), row);
  }
  pair[0] = pair[kPairLane] = 0;
}

[[gnu::always_inline]] inline void store8(const Vector (&columns)[8], std::uint8_t* out,
                                          std::ptrdiff_t stride) {
  Vector samples[4];
  to_rows(columns, samples);
  for (int i = 0; i < 4; ++i, out += 2 * stride) {
    const Vector both = _mm256_permute4x64_epi64(samples[i], 0xD8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(both));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + stride), _mm256_extracti128_si256(both, 1));
  }
}

// The first ten coefficients in zigzag order are in the first four rows and columns.
constexpr int kLastSparse = 9;

void inverse8_sparse(std::int16_t* pair, const std::int16_t* table, std::uint8_t* out,
                     std::ptrdiff_t stride) {
  Vector rows[4], wide[8], two_rows[4];
  const Vector flat = dequantise(pair, table, rows);
  clear(pair, 4);
  transform_half<false, 11>(rows, wide);
  for (int i = 0; i < 4; ++i) two_rows[i] = _mm256_packs_epi32(wide[2 * i], wide[2 * i + 1]);
  if (_mm256_movemask_epi8(flat) != 0) {
    const Vector first = _mm256_slli_epi16(rows[0], 2);
    const Vector twice = _mm256_unpacklo_epi64(first, first);
    for (Vector& row : two_rows) row = _mm256_blendv_epi8(row, twice, flat);
  }
  // Converts [rows 2i, 2i + 1] of four columns to columns of eight rows.
  Vector quarter[4];
  for (int i = 0; i < 2; ++i) {
    const Vector even = _mm256_unpacklo_epi16(two_rows[2 * i], two_rows[2 * i + 1]);
    const Vector odd = _mm256_unpackhi_epi16(two_rows[2 * i], two_rows[2 * i + 1]);
    quarter[i] = _mm256_unpacklo_epi16(even, odd);
    quarter[2 + i] = _mm256_unpackhi_epi16(even, odd);
  }
  for (int i = 0; i < 2; ++i) {
    rows[2 * i] = _mm256_unpacklo_epi64(quarter[2 * i], quarter[2 * i + 1]);
    rows[2 * i + 1] = _mm256_unpackhi_epi64(quarter[2 * i], quarter[2 * i + 1]);
  }
  Vector columns[8];
  transform<18>(rows, columns);
  store8(columns, out, stride);
}

void inverse8(std::int16_t* pair, const std::int16_t* table, const std::uint8_t* last,
              std::uint8_t* out, std::ptrdiff_t stride) {
  if ((last[0] | last[1]) == 0) {
    store_plain8(pair, table, out, stride);
    return;
  }
  if (last[0] <= kLastSparse && last[1] <= kLastSparse) {
    inverse8_sparse(pair, table, out, stride);
    return;
  }
  Vector rows[8];
  const Vector flat = dequantise(pair, table, rows);
  clear(pair);
  const Vector first = _mm256_slli_epi16(rows[0], 2);
  transform<11>(rows, rows);
  if (_mm256_movemask_epi8(flat) != 0) {
    for (Vector& row : rows) row = _mm256_blendv_epi8(row, first, flat);
  }
  transpose(rows);
  transform<18>(rows, rows);
  store8(rows, out, stride);
}

// ---- 4 x 4 ----

// Computes 32-bit terms of the four outputs from (in2, in6), (in1, in3), (in5, in7) and widened
// in0.
[[gnu::always_inline]] inline void butterfly4(Vector in0, Vector in26, Vector in13, Vector in57,
                                              Vector half, Vector (&out)[4]) {
  const Vector even = multiply(in26, kF1847, -kF0765);
  const Vector odd2 = add(multiply(in13, kF2562, kF0899), multiply(in57, -kF0601, -kF0509));
  const Vector odd0 = add(multiply(in13, kF1061, -kF2172), multiply(in57, kF1451, -kF0211));
  const Vector sum = add(add(in0, half), even), difference = sub(add(in0, half), even);
  out[0] = add(sum, odd2);
  out[3] = sub(sum, odd2);
  out[1] = add(difference, odd0);
  out[2] = sub(difference, odd0);
}

template <bool kHigh>
[[gnu::always_inline]] inline void columns4(const Vector (&in)[8], Vector (&out)[4]) {
  butterfly4(widened<kHigh, 14>(in[0]), interleave<kHigh>(in[2], in[6]),
             interleave<kHigh>(in[1], in[3]), interleave<kHigh>(in[5], in[7]),
             _mm256_set1_epi32(1 << 11), out);
}

void store_plain4(std::int16_t* pair, const std::int16_t* table, std::uint8_t* out,
                  std::ptrdiff_t stride) {
  const auto spread = [](int sample) { return static_cast<std::uint32_t>(sample) * 0x01010101u; };
  const std::uint64_t row =
      spread(plain_sample(pair[0], table[0])) |
      static_cast<std::uint64_t>(spread(plain_sample(pair[kPairLane], table[0]))) << 32;
  for (int y = 0; y < 4; ++y, out += stride) __builtin_memcpy(out, &row, sizeof row);
  pair[0] = pair[kPairLane] = 0;
}

void inverse4(std::int16_t* pair, const std::int16_t* table, const std::uint8_t* last,
              std::uint8_t* out, std::ptrdiff_t stride) {
  if ((last[0] | last[1]) == 0) {
    store_plain4(pair, table, out, stride);
    return;
  }
  Vector in[8];
  const Vector flat = dequantise<8, 4>(pair, table, in);
  clear(pair);
  Vector low[4], high[4], rows[4];
  columns4<false>(in, low);
  columns4<true>(in, high);
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_packs_epi32(_mm256_srai_epi32(low[i], 12), _mm256_srai_epi32(high[i], 12));
    rows[i] = _mm256_blendv_epi8(rows[i], _mm256_slli_epi16(in[0], 2), flat);
  }
  Vector c[4];
  pair_columns(rows[0], rows[1], rows[2], rows[3], c);
  Vector column[4];
  butterfly4(widened<false, 14>(c[0]), interleave<false>(c[1], c[3]), interleave<true>(c[0], c[1]),
             interleave<true>(c[2], c[3]), _mm256_set1_epi32(1 << 18), column);
  for (Vector& one : column) one = _mm256_srai_epi32(one, 19);
  // Samples by column, four rows each, then by row.
  const Vector words02 = _mm256_packs_epi32(column[0], column[2]);
  const Vector words13 = _mm256_packs_epi32(column[1], column[3]);
  const Vector by_column = to_samples(words02, words13);
  const Vector order = _mm256_setr_epi8(0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15,  //
                                        0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15);
  const Vector by_row = _mm256_shuffle_epi8(by_column, order);
  const __m128i one = _mm256_castsi256_si128(by_row), two = _mm256_extracti128_si256(by_row, 1);
  const __m128i upper = _mm_unpacklo_epi32(one, two), lower = _mm_unpackhi_epi32(one, two);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), upper);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out + stride), _mm_unpackhi_epi64(upper, upper));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out + 2 * stride), lower);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out + 3 * stride), _mm_unpackhi_epi64(lower, lower));
}

// ---- 2 x 2 and 1 x 1, only for large photographs ----

// Wraps a result to int32.
std::int32_t wrap(std::int64_t x) { return static_cast<std::int32_t>(x); }
int saturate(std::int32_t x, int limit) {
  return x < -limit - 1 ? -limit - 1 : x > limit ? limit : x;
}

std::int32_t odd2(int in1, int in3, int in5, int in7) {
  return wrap(std::int64_t{in1} * kF3624 - std::int64_t{in3} * kF1272 + std::int64_t{in5} * kF0850 -
              std::int64_t{in7} * kF0720);
}

void block2(const std::int16_t* block, const std::int16_t* table, std::uint8_t* out,
            std::ptrdiff_t stride) {
  const auto at = [&](int row, int column) {
    const int i = 16 * row + column;
    return static_cast<std::int16_t>(block[i] * table[i]);
  };
  std::int32_t rows[2][8] = {};
  for (const int column : {0, 1, 3, 5, 7}) {
    const std::int64_t odd = odd2(at(1, column), at(3, column), at(5, column), at(7, column));
    const std::int64_t even = std::int64_t{at(0, column)} * (1 << 15);
    rows[0][column] = wrap(even + odd + (1 << 12)) >> 13;
    rows[1][column] = wrap(even - odd + (1 << 12)) >> 13;
    if (column == 0) continue;
    for (auto& row : rows) row[column] = saturate(row[column], 32767);
  }
  for (const auto& row : rows) {
    const std::int64_t odd = odd2(row[1], row[3], row[5], row[7]);
    const std::int64_t even = std::int64_t{row[0]} * (1 << 15);
    const auto sample = [](std::int64_t sum) {
      return static_cast<std::uint8_t>(saturate(wrap(sum + (1 << 19)) >> 20, 127) + 128);
    };
    out[0] = sample(even + odd);
    out[1] = sample(even - odd);
    out += stride;
  }
}

void inverse2(std::int16_t* pair, const std::int16_t* table, const std::uint8_t*, std::uint8_t* out,
              std::ptrdiff_t stride) {
  block2(pair, table, out, stride);
  block2(pair + kPairLane, table, out + 2, stride);
  clear(pair);
}

// Returns the sample of a value by its lower ten bits, as the table of libjpeg does.
std::uint8_t limited(int value) {
  value = ((value + 512) & 1023) - 512 + 128;
  return static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

void inverse1(std::int16_t* pair, const std::int16_t* table, const std::uint8_t*, std::uint8_t* out,
              std::ptrdiff_t) {
  out[0] = limited((pair[0] * table[0] + 4) >> 3);
  out[1] = limited((pair[kPairLane] * table[0] + 4) >> 3);
  clear(pair);
}

}  // namespace

InverseDct inverse_dct(int size) {
  return size == 8 ? inverse8 : size == 4 ? inverse4 : size == 2 ? inverse2 : inverse1;
}

}  // namespace trainer::data::jpeg
