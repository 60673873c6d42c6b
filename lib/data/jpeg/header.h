// The markers of a plain JPEG file: 8 bits, sequential, Huffman coded, grey or YCbCr, one scan.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace trainer::data::jpeg {

using File = std::span<const std::uint8_t>;

// Where a coefficient of zigzag order lies in the block: row * 8 + column.
inline constexpr std::uint8_t kZigzag[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

struct Component {
  int id = 0;
  int h = 1, v = 1;  // sampling factors
  int quant = 0;     // which table
  int dc = 0, ac = 0;
};

// Of a DHT segment: 16 counts of codes by length, then the symbols, in the file's memory.
struct HuffmanCode {
  const std::uint8_t* counts = nullptr;
  int symbols = 0;
};

struct Header {
  int height = 0, width = 0;
  int components = 0;  // 1 (grey) or 3 (YCbCr)
  std::array<Component, 3> component{};
  // In zigzag order, in the file's memory; null where there is none.
  std::array<const std::uint8_t*, 4> quant{};
  std::array<HuffmanCode, 4> dc{}, ac{};
  int restart_interval = 0;  // in MCUs, 0: none
  std::size_t scan = 0;      // where the entropy-coded bytes begin
  int orientation = 1;       // EXIF
};

// False when the file is not plain, or there is anything in its markers that libjpeg warns of or
// refuses: libjpeg then has to judge it. Sampling factors are 1x1 for grey, and for YCbCr 1x1, 2x1
// or 2x2 of luma to one of chroma. Every table that the scan names is there.
bool read_plain_header(File file, Header& header);

}  // namespace trainer::data::jpeg
