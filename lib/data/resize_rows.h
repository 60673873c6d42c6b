// The two inner loops of resizing, once in plain C++ and once for AVX2; both give the same bits.
#pragma once

#include <cstdint>
#include <vector>

namespace trainer::data {

// Rows between the two passes keep this many bits after the point.
inline constexpr int kRowFraction = 6;

// Output i is the sum over k of values[i * taps + k] * input[first[i] + k], divided by 2^shift.
// Where fewer taps are needed the rest are zeros, for which first[i] + k may lie beyond the input.
struct ResizeWeights {
  int taps = 0;
  int shift = 0;
  std::vector<int> first;
  std::vector<std::int16_t> values;
};
// `taps` is rounded up to a multiple of these.
inline constexpr int kVerticalTaps = 2, kRgbTaps = 2, kGreyTaps = 8;
// A row handed to horizontal() is readable for this many elements beyond its end.
inline constexpr int kRowSlack = 64;

struct ResizeRows {
  // out[i] = sum over k of weights[k] * rows[k][i], for i in [0, count).
  void (*vertical)(const std::uint8_t* const* rows, const std::int16_t* weights, int taps,
                   int shift, int count, std::int16_t* out);
  void (*horizontal_rgb)(const std::int16_t* row, const ResizeWeights& weights, int count,
                         std::uint8_t* out);
  void (*horizontal_grey)(const std::int16_t* row, const ResizeWeights& weights, int count,
                          std::uint8_t* out);
};
ResizeRows plain_resize_rows();
ResizeRows avx2_resize_rows();

}  // namespace trainer::data
