// The sliding window of convolutions and poolings.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace trainer::graph {

// A window whose padding is resolved to pixels. Index 0 is height, 1 is width.
struct Window {
  std::array<std::int64_t, 2> size{1, 1};
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::array<std::int64_t, 2> pad_before{0, 0};  // top, left
  std::array<std::int64_t, 2> pad_after{0, 0};   // bottom, right

  bool operator==(const Window&) const = default;
  // Returns the output extent along an axis for an input extent, rounded down, or 0 if the window
  // does not fit.
  std::int64_t output(std::int64_t input, int axis) const;
  // "3x3 stride 2 pad 1,1,1,1"; attributes with their default value are left out.
  std::string text() const;
};

}  // namespace trainer::graph
