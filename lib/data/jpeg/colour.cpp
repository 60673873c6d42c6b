// Compiled for AVX2. Inline functions of other headers must not be used here, as the linker could
// keep this copy of them for all callers.
#include <immintrin.h>

#include "data/jpeg/kernels.h"

namespace trainer::data::jpeg {
namespace {

using Vector = __m256i;

Vector load(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const Vector*>(p));
}
void store(std::uint8_t* p, Vector v) { _mm256_storeu_si256(reinterpret_cast<Vector*>(p), v); }
void store_half(std::uint8_t* p, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }

// Returns first * x + second * y for the two samples of each pair.
Vector weigh(Vector pairs, int x, int y) {
  return _mm256_maddubs_epi16(pairs, _mm256_set1_epi16(static_cast<short>(x | y << 8)));
}

// Stores samples in order from words of the samples at even and odd places, in the order of unpack.
void store_widened(std::uint8_t* out, Vector even_low, Vector even_high, Vector odd_low,
                   Vector odd_high) {
  const Vector low = _mm256_or_si256(even_low, _mm256_slli_epi16(odd_low, 8));
  const Vector high = _mm256_or_si256(even_high, _mm256_slli_epi16(odd_high, 8));
  store(out, _mm256_permute2x128_si256(low, high, 0x20));
  store(out + 32, _mm256_permute2x128_si256(low, high, 0x31));
}

// 16 pixels as words. Chroma, blue and red, is relative to 128.
struct Rgb {
  Vector red, green, blue;
};

// Returns x * factor / 65536 of words, rounded, from 2 * x, which must not overflow.
Vector scaled(Vector twice, int factor) {
  const Vector product = _mm256_mulhi_epi16(twice, _mm256_set1_epi16(static_cast<short>(factor)));
  return _mm256_srai_epi16(_mm256_add_epi16(product, _mm256_set1_epi16(1)), 1);
}

// Converts by ITU-R 601 with the factors that libjpeg rounds to 16 bits:
// R = Y + 1.402 Cr, G = Y - 0.34414 Cb - 0.71414 Cr, B = Y + 1.772 Cb.
Rgb convert(Vector luma, Vector blue, Vector red) {
  const Vector blue2 = _mm256_add_epi16(blue, blue), red2 = _mm256_add_epi16(red, red);
  Rgb rgb;
  rgb.red = _mm256_add_epi16(_mm256_add_epi16(luma, red), scaled(red2, 91881 - 65536));
  rgb.blue = _mm256_add_epi16(_mm256_add_epi16(luma, blue2), scaled(blue2, 116130 - 131072));
  // The sum of both products is rounded once. The factor of Cr is reduced by 1 so that it fits.
  const Vector factors = _mm256_set1_epi32((-22554 & 0xFFFF) | (65536 - 46802) * 65536);
  const Vector half = _mm256_set1_epi32(1 << 15);
  const Vector low = _mm256_madd_epi16(_mm256_unpacklo_epi16(blue, red), factors);
  const Vector high = _mm256_madd_epi16(_mm256_unpackhi_epi16(blue, red), factors);
  const Vector both = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 16),
                                         _mm256_srai_epi32(_mm256_add_epi32(high, half), 16));
  rgb.green = _mm256_add_epi16(_mm256_sub_epi16(luma, red), both);
  return rgb;
}

// Interleaves 16 bytes of each colour in each half to 48 bytes of RGB per half, a third per vector.
struct Thirds {
  Vector first, second, third;
};
Vector pick(Vector bytes, __m128i places) {
  return _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(places));
}
Thirds mix(Vector red, Vector green, Vector blue) {
  const __m128i r0 = _mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5);
  const __m128i r1 = _mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1);
  const __m128i r2 = _mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1);
  const __m128i g0 = _mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1);
  const __m128i g1 = _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10);
  const __m128i g2 = _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1);
  const __m128i b0 = _mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1);
  const __m128i b1 = _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1);
  const __m128i b2 = _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15);
  const auto third = [&](__m128i r, __m128i g, __m128i b) {
    return _mm256_or_si256(_mm256_or_si256(pick(red, r), pick(green, g)), pick(blue, b));
  };
  return {third(r0, g0, b0), third(r1, g1, b1), third(r2, g2, b2)};
}

void convert32(const std::uint8_t* luma, const std::uint8_t* blue, const std::uint8_t* red,
               std::uint8_t* out) {
  const Vector zero = _mm256_setzero_si256(), middle = _mm256_set1_epi16(128);
  const Vector y = load(luma), b = load(blue), r = load(red);
  const Rgb low = convert(_mm256_unpacklo_epi8(y, zero),
                          _mm256_sub_epi16(_mm256_unpacklo_epi8(b, zero), middle),
                          _mm256_sub_epi16(_mm256_unpacklo_epi8(r, zero), middle));
  const Rgb high = convert(_mm256_unpackhi_epi8(y, zero),
                           _mm256_sub_epi16(_mm256_unpackhi_epi8(b, zero), middle),
                           _mm256_sub_epi16(_mm256_unpackhi_epi8(r, zero), middle));
  const Thirds t =
      mix(_mm256_packus_epi16(low.red, high.red), _mm256_packus_epi16(low.green, high.green),
          _mm256_packus_epi16(low.blue, high.blue));
  store(out, _mm256_permute2x128_si256(t.first, t.second, 0x20));
  store_half(out + 32, _mm256_castsi256_si128(t.third));
  store_half(out + 48, _mm256_extracti128_si256(t.first, 1));
  store(out + 64, _mm256_permute2x128_si256(t.second, t.third, 0x31));
}

}  // namespace

void widen(const std::uint8_t* row, int count, std::uint8_t* out) {
  const Vector one = _mm256_set1_epi16(1), two = _mm256_set1_epi16(2);
  for (int x = 0; x < count; x += 32) {
    const Vector before = load(row + x - 1), here = load(row + x), after = load(row + x + 1);
    const auto even = [&](Vector pairs) {
      return _mm256_srli_epi16(_mm256_add_epi16(weigh(pairs, 3, 1), one), 2);
    };
    const auto odd = [&](Vector pairs) {
      return _mm256_srli_epi16(_mm256_add_epi16(weigh(pairs, 3, 1), two), 2);
    };
    store_widened(out + 2 * x, even(_mm256_unpacklo_epi8(here, before)),
                  even(_mm256_unpackhi_epi8(here, before)), odd(_mm256_unpacklo_epi8(here, after)),
                  odd(_mm256_unpackhi_epi8(here, after)));
  }
}

void widen(const std::uint8_t* near_row, const std::uint8_t* far_row, int count,
           std::uint8_t* out) {
  const Vector seven = _mm256_set1_epi16(7), eight = _mm256_set1_epi16(8);
  const auto sum = [&](Vector here, Vector beside, Vector round) {
    const Vector sixteen = _mm256_add_epi16(here, _mm256_add_epi16(weigh(beside, 3, 1), round));
    return _mm256_srli_epi16(sixteen, 4);
  };
  for (int x = 0; x < count; x += 32) {
    const Vector near0 = load(near_row + x - 1), far0 = load(far_row + x - 1);
    const Vector near1 = load(near_row + x), far1 = load(far_row + x);
    const Vector near2 = load(near_row + x + 1), far2 = load(far_row + x + 1);
    const Vector low = weigh(_mm256_unpacklo_epi8(near1, far1), 9, 3);
    const Vector high = weigh(_mm256_unpackhi_epi8(near1, far1), 9, 3);
    store_widened(out + 2 * x, sum(low, _mm256_unpacklo_epi8(near0, far0), eight),
                  sum(high, _mm256_unpackhi_epi8(near0, far0), eight),
                  sum(low, _mm256_unpacklo_epi8(near2, far2), seven),
                  sum(high, _mm256_unpackhi_epi8(near2, far2), seven));
  }
}

void to_rgb(const std::uint8_t* luma, const std::uint8_t* blue, const std::uint8_t* red, int count,
            std::uint8_t* out) {
  int x = 0;
  for (; x + 32 <= count; x += 32) convert32(luma + x, blue + x, red + x, out + 3 * x);
  if (x == count) return;
  std::uint8_t rest[96];
  convert32(luma + x, blue + x, red + x, rest);
  __builtin_memcpy(out + 3 * x, rest, 3 * static_cast<std::size_t>(count - x));
}

}  // namespace trainer::data::jpeg
