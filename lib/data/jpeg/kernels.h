// The inner loops of decoding a JPEG for AVX2 and BMI2; other processors cannot call them. For any
// coefficients, the results are equal to those of libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/jpeg/huffman.h"

namespace trainer::data::jpeg {

// ---- Entropy-coded bytes (entropy.cpp) ---------------------------------------------------------

// Copies [in, end) without the zeros stuffed behind 0xFF, up to a marker or the end. Returns the
// end of the bytes read and sets `out` to the end of the copy. Writes up to 32 bytes beyond that.
const std::uint8_t* unstuff(const std::uint8_t* in, const std::uint8_t* end, std::uint8_t*& out);

// The next bits are the upper bits of `bits`; the lower six bits of `count` are the number of valid
// ones.
struct BitReader {
  const std::uint8_t* next;
  std::uint64_t bits;
  std::uint64_t count;
  std::uint64_t long_codes;  // the number of long codes, if the decoder counts them
};

// Coefficients of two blocks are stored together, [row][block][column], so that a row of both is
// one vector. Spare elements behind them receive coefficients that are not used.
inline constexpr int kPairSize = 160;
inline constexpr int kPairLane = 8;

// The tables of one block of an MCU and the place of its coefficients.
struct BlockPlan {
  const HuffmanTable* dc;
  const HuffmanTable* ac;
  int component;
  int pair, lane;
};
// The largest size of an MCU of 6 blocks; so many bytes must be readable beyond the segment.
inline constexpr int kMaxMcuBytes = 6 * 64 * 4 + 16;

// Decodes the blocks of an MCU; `coefficients` must be zeros. Sets last[2 * pair + lane] to the
// zigzag place of the last coefficient. Returns false for bits that are not a code, and for too
// many coefficients.
using McuDecoder = bool (*)(BitReader& reader, const BlockPlan* plan, int blocks,
                            std::int32_t* predictions, std::int16_t* coefficients,
                            std::uint8_t* last);
// Returns the faster decoder for files with many long codes (more than 1 of 20), or for other
// files; only the latter counts long codes.
McuDecoder mcu_decoder(bool often_long);

// ---- Inverse DCT (idct.cpp) --------------------------------------------------------------------

// Transforms two blocks to `size` rows of 2 * size samples; size is 8, 4, 2 or 1. The table has the
// layout of the blocks. Sets the blocks to zeros.
using InverseDct = void (*)(std::int16_t* pair, const std::int16_t* table, const std::uint8_t* last,
                            std::uint8_t* out, std::ptrdiff_t stride);
InverseDct inverse_dct(int size);

// ---- Colours (colour.cpp) ----------------------------------------------------------------------

// Computes twice as many samples from a row, weighted 3:1, or from two rows, the nearer one first,
// like the "fancy upsampling" of libjpeg. Both read one sample before and 32 beyond the row, and
// write up to 64 beyond 2 * count. The sample before the row must equal its first one, and the
// sample behind it its last one.
void widen(const std::uint8_t* row, int count, std::uint8_t* out);
void widen(const std::uint8_t* near_row, const std::uint8_t* far_row, int count, std::uint8_t* out);

// Converts a row of `count` pixels to RGB. Reads up to 32 samples beyond the row, and writes only
// its pixels.
void to_rgb(const std::uint8_t* luma, const std::uint8_t* blue, const std::uint8_t* red, int count,
            std::uint8_t* out);

}  // namespace trainer::data::jpeg
