// Compiled for AVX-512 and called only on processors that have it. Inline functions of other
// headers must not be used here, as the linker could keep this copy of them for all callers.
#include <immintrin.h>

#include "data/images/resize/rows.h"

namespace trainer::data {
namespace {

__m512i load(const void* p) { return _mm512_loadu_si512(p); }

// Computes 64 elements. Unpacking works within 128-bit quarters; packing and permutes reverse that.
void vertical_block(const std::uint8_t* const* rows, const std::int16_t* weights, int taps,
                    int shift, int x, std::int16_t* out) {
  const __m512i zero = _mm512_setzero_si512();
  const int down = shift - kRowFraction;
  const __m512i half = _mm512_set1_epi32(1 << (down - 1));
  __m512i a = half, b = half, c = half, d = half;
  for (int k = 0; k < taps; k += 2) {
    int pair;
    __builtin_memcpy(&pair, weights + k, sizeof pair);
    const __m512i w = _mm512_set1_epi32(pair);
    const __m512i one = load(rows[k] + x), two = load(rows[k + 1] + x);
    const __m512i low = _mm512_unpacklo_epi8(one, two), high = _mm512_unpackhi_epi8(one, two);
    a = _mm512_add_epi32(a, _mm512_madd_epi16(_mm512_unpacklo_epi8(low, zero), w));
    b = _mm512_add_epi32(b, _mm512_madd_epi16(_mm512_unpackhi_epi8(low, zero), w));
    c = _mm512_add_epi32(c, _mm512_madd_epi16(_mm512_unpacklo_epi8(high, zero), w));
    d = _mm512_add_epi32(d, _mm512_madd_epi16(_mm512_unpackhi_epi8(high, zero), w));
  }
  const __m128i count = _mm_cvtsi32_si128(down);
  const __m512i ab = _mm512_packs_epi32(_mm512_sra_epi32(a, count), _mm512_sra_epi32(b, count));
  const __m512i cd = _mm512_packs_epi32(_mm512_sra_epi32(c, count), _mm512_sra_epi32(d, count));
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  _mm512_storeu_si512(out + x, _mm512_permutex2var_epi64(ab, first, cd));
  _mm512_storeu_si512(out + x + 32, _mm512_permutex2var_epi64(ab, second, cd));
}

void vertical(const std::uint8_t* const* rows, const std::int16_t* weights, int taps, int shift,
              int count, std::int16_t* out) {
  if (count < 64) {
    avx2_resize_rows().vertical(rows, weights, taps, shift, count, out);
    return;
  }
  int x = 0;
  for (; x + 64 <= count; x += 64) vertical_block(rows, weights, taps, shift, x, out);
  if (x < count) vertical_block(rows, weights, taps, shift, count - 64, out);
}

template <int kChannels>
void horizontal(const std::int16_t* row, const ResizeWeights& weights, int count,
                std::uint8_t* out) {
  const int pairs = weights.taps / 2, shift = weights.shift + kRowFraction;
  const int numbers = count * kChannels;
  const std::int16_t* places = &weights.places[0];
  const std::int16_t* values = &weights.pairs[0];
  const int* start = &weights.start[0];
  const __m512i half = _mm512_set1_epi32(1 << (shift - 1));
  const __m128i down = _mm_cvtsi32_si128(shift);
  for (int done = 0; done < numbers; done += kGroup, places += 2 * kGroup) {
    const std::int16_t* from = row + *start++;
    const __m512i pick = load(places);
    __m512i sum = half;
    for (int k = 0; k < pairs; ++k, from += 2 * kChannels, values += 2 * kGroup) {
      const __m512i taps = _mm512_permutex2var_epi16(load(from), pick, load(from + 32));
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(taps, load(values)));
    }
    const __m512i words = _mm512_max_epi32(_mm512_sra_epi32(sum, down), _mm512_setzero_si512());
    const int left = numbers - done;
    const auto kept = static_cast<__mmask16>(left < kGroup ? (1 << left) - 1 : 0xFFFF);
    _mm_mask_storeu_epi8(out + done, kept, _mm512_cvtusepi32_epi8(words));
  }
}

void horizontal_rgb(const std::int16_t* row, const ResizeWeights& weights, int count,
                    std::uint8_t* out) {
  (weights.grouped ? horizontal<3> : avx2_resize_rows().horizontal_rgb)(row, weights, count, out);
}
void horizontal_grey(const std::int16_t* row, const ResizeWeights& weights, int count,
                     std::uint8_t* out) {
  (weights.grouped ? horizontal<1> : avx2_resize_rows().horizontal_grey)(row, weights, count, out);
}

}  // namespace

ResizeRows avx512_resize_rows() {
  return {vertical, horizontal_rgb, horizontal_grey, avx2_resize_rows().repeat_grey, true};
}

}  // namespace trainer::data
