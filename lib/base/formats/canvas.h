// A picture in memory, with text in a small font, written as PNG.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/files.h"

namespace trainer {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
};
inline constexpr Colour kBlack{0, 0, 0}, kWhite{255, 255, 255};

// The picture is white at first. Pixels outside it are ignored.
class Canvas {
 public:
  static constexpr int kTextHeight = 12;  // pixels of a line

  Canvas(int width, int height);
  int width() const { return width_; }
  int height() const { return height_; }

  void set(int x, int y, Colour colour);
  void fill(int x, int y, int width, int height, Colour colour);
  // Draws text to the right, where (x, y) is its upper left corner, or upwards, where (x, y) is the
  // lower left corner. Leaves out the letters beyond `max_width` pixels. Characters that are not
  // ASCII become '?'.
  enum class Direction { kRight, kUp };
  void text(int x, int y, int max_width, const std::string& text, Colour colour = kBlack,
            Direction direction = Direction::kRight);
  static int text_width(const std::string& text);

  Bytes png() const;

 private:
  int width_, height_;
  std::vector<std::uint8_t> rgb_;
};

}  // namespace trainer
