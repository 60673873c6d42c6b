// Compiled for AVX2 and called only on processors that have it. Inline functions of other headers
// must not be used here, as the linker could keep this copy of them for all callers.
#include <immintrin.h>

#include <cstring>

#include "data/images/resize/rows.h"

namespace trainer::data {
namespace {

__m256i load(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// Computes 32 elements. Unpacking works within 128-bit halves; packing and permutes reverse that.
void vertical_block(const std::uint8_t* const* rows, const std::int16_t* weights, int taps,
                    int shift, int x, std::int16_t* out) {
  const __m256i zero = _mm256_setzero_si256();
  const int down = shift - kRowFraction;
  const __m256i half = _mm256_set1_epi32(1 << (down - 1));
  __m256i a = half, b = half, c = half, d = half;
  for (int k = 0; k < taps; k += 2) {
    int pair;
    std::memcpy(&pair, weights + k, sizeof pair);
    const __m256i w = _mm256_set1_epi32(pair);
    const __m256i one = load(rows[k] + x), two = load(rows[k + 1] + x);
    const __m256i low = _mm256_unpacklo_epi8(one, two), high = _mm256_unpackhi_epi8(one, two);
    a = _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), w));
    b = _mm256_add_epi32(b, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), w));
    c = _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), w));
    d = _mm256_add_epi32(d, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), w));
  }
  const __m128i count = _mm_cvtsi32_si128(down);
  const __m256i ab = _mm256_packs_epi32(_mm256_sra_epi32(a, count), _mm256_sra_epi32(b, count));
  const __m256i cd = _mm256_packs_epi32(_mm256_sra_epi32(c, count), _mm256_sra_epi32(d, count));
  auto* to = reinterpret_cast<__m256i*>(out + x);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(ab, cd, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(ab, cd, 0x31));
}

void vertical(const std::uint8_t* const* rows, const std::int16_t* weights, int taps, int shift,
              int count, std::int16_t* out) {
  if (count < 32) {
    plain_resize_rows().vertical(rows, weights, taps, shift, count, out);
    return;
  }
  int x = 0;
  for (; x + 32 <= count; x += 32) vertical_block(rows, weights, taps, shift, x, out);
  if (x < count) vertical_block(rows, weights, taps, shift, count - 32, out);
}

// Converts four sums of int32 to four bytes.
int to_bytes(__m128i sums, int shift) {
  const __m128i half = _mm_set1_epi32(1 << (shift - 1));
  const __m128i words = _mm_sra_epi32(_mm_add_epi32(sums, half), _mm_cvtsi32_si128(shift));
  const __m128i packed = _mm_packs_epi32(words, words);
  return _mm_cvtsi128_si32(_mm_packus_epi16(packed, packed));
}

// Returns the red, green and blue sums of one output pixel, shifted down; the fourth number is
// unspecified.
__m128i rgb_sum(const std::int16_t* from, const std::int16_t* values, int taps, int shift) {
  // Two pixels r0 g0 b0 r1 g1 b1 become the pairs r0 r1, g0 g1, b0 b1.
  const __m128i pairs = _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1);
  // The first two of four weights are for the lower half, the others for the upper.
  const __m256i spread = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6,
                                          7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  __m256i sum = _mm256_setzero_si256();
  int k = 0;
  for (; k + 4 <= taps; k += 4, from += 12) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 6));
    const __m256i pixels =
        _mm256_shuffle_epi8(_mm256_set_m128i(high, low), _mm256_broadcastsi128_si256(pairs));
    long long four;
    std::memcpy(&four, values + k, sizeof four);
    const __m256i w = _mm256_shuffle_epi8(_mm256_set1_epi64x(four), spread);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pixels, w));
  }
  __m128i total = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  if (k < taps) {
    const __m128i two = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    int pair;
    std::memcpy(&pair, values + k, sizeof pair);
    total =
        _mm_add_epi32(total, _mm_madd_epi16(_mm_shuffle_epi8(two, pairs), _mm_set1_epi32(pair)));
  }
  const __m128i half = _mm_set1_epi32(1 << (shift - 1));
  return _mm_sra_epi32(_mm_add_epi32(total, half), _mm_cvtsi32_si128(shift));
}

// Packs the colours of four pixels; their fourth numbers are dropped.
__m128i pack_rgb(__m128i a, __m128i b, __m128i c, __m128i d) {
  const __m128i colours = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const __m128i bytes = _mm_packus_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d));
  return _mm_shuffle_epi8(bytes, colours);
}

void horizontal_rgb(const std::int16_t* row, const ResizeWeights& weights, int count,
                    std::uint8_t* out) {
  const int taps = weights.taps, shift = weights.shift + kRowFraction;
  const int* first = &weights.first[0];
  const std::int16_t* values = &weights.values[0];
  const auto sum = [&](int x) {
    return rgb_sum(row + 3 * first[x], values + static_cast<long>(x) * taps, taps, shift);
  };
  int x = 0;
  for (; x + 4 <= count; x += 4) {
    const __m128i four = pack_rgb(sum(x), sum(x + 1), sum(x + 2), sum(x + 3));
    std::memcpy(out + 3 * x, &four, 12);
  }
  for (; x < count; ++x) {
    const __m128i one = pack_rgb(sum(x), __m128i{}, __m128i{}, __m128i{});
    std::memcpy(out + 3 * x, &one, 3);
  }
}

__m128i grey_sum(const std::int16_t* row, const ResizeWeights& weights, int x) {
  const std::int16_t* from = row + (&weights.first[0])[x];
  const std::int16_t* values = &weights.values[0] + static_cast<long>(x) * weights.taps;
  __m128i sum = _mm_setzero_si128();
  for (int k = 0; k < weights.taps; k += 8) {
    const __m128i pixels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k));
    const __m128i w = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + k));
    sum = _mm_add_epi32(sum, _mm_madd_epi16(pixels, w));
  }
  return sum;
}

void horizontal_grey(const std::int16_t* row, const ResizeWeights& weights, int count,
                     std::uint8_t* out) {
  const int shift = weights.shift + kRowFraction;
  for (int x = 0; x < count; x += 4) {
    const int left = count - x < 4 ? count - x : 4;
    const __m128i zero = _mm_setzero_si128();
    const __m128i a = grey_sum(row, weights, x);
    const __m128i b = left > 1 ? grey_sum(row, weights, x + 1) : zero;
    const __m128i c = left > 2 ? grey_sum(row, weights, x + 2) : zero;
    const __m128i d = left > 3 ? grey_sum(row, weights, x + 3) : zero;
    const int bytes = to_bytes(_mm_hadd_epi32(_mm_hadd_epi32(a, b), _mm_hadd_epi32(c, d)), shift);
    std::memcpy(out + x, &bytes, static_cast<unsigned long>(left));
  }
}

void repeat_grey(const std::uint8_t* grey, int count, std::uint8_t* rgb) {
  const __m128i first = _mm_setr_epi8(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5);
  const __m128i second = _mm_setr_epi8(5, 5, 6, 6, 6, 7, 7, 7, 8, 8, 8, 9, 9, 9, 10, 10);
  const __m128i third =
      _mm_setr_epi8(10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15, 15);
  int x = 0;
  for (; x + 16 <= count; x += 16, rgb += 48) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(grey + x));
    auto* to = reinterpret_cast<__m128i*>(rgb);
    _mm_storeu_si128(to, _mm_shuffle_epi8(values, first));
    _mm_storeu_si128(to + 1, _mm_shuffle_epi8(values, second));
    _mm_storeu_si128(to + 2, _mm_shuffle_epi8(values, third));
  }
  plain_resize_rows().repeat_grey(grey + x, count - x, rgb);
}

}  // namespace

ResizeRows avx2_resize_rows() {
  return {vertical, horizontal_rgb, horizontal_grey, repeat_grey, false};
}

}  // namespace trainer::data
