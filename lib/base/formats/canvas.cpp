#include "base/formats/canvas.h"

#include <cstring>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_easy_font.h>
#include <stb/stb_image_write.h>

namespace trainer {
namespace {

// Replaces each character that the font lacks, which is any but printable ASCII, by one '?'.
std::string drawable(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if ((byte & 0xC0) == 0x80) continue;
    result += byte >= ' ' && byte < 127 ? letter : '?';
  }
  return result;
}

// Returns the start of a drawable text that fits into `max_width` pixels. The time depends on the
// letters that fit, not on the length of the text.
std::string fitting(const std::string& drawn, int max_width) {
  std::size_t length = 0;
  for (int width = 0; length < drawn.size(); ++length) {
    char letter[2] = {drawn[length], '\0'};
    width += stb_easy_font_width(letter);
    if (width > max_width) break;
  }
  return drawn.substr(0, length);
}

}  // namespace

Canvas::Canvas(int width, int height)
    : width_(width), height_(height), rgb_(std::size_t{3} * width * height, 255) {}

void Canvas::set(int x, int y, Colour colour) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  std::uint8_t* to = &rgb_[3 * (std::ptrdiff_t{width_} * y + x)];
  to[0] = colour.red;
  to[1] = colour.green;
  to[2] = colour.blue;
}

void Canvas::fill(int x, int y, int width, int height, Colour colour) {
  for (int row = y; row < y + height; ++row) {
    for (int column = x; column < x + width; ++column) set(column, row, colour);
  }
}

int Canvas::text_width(const std::string& text) {
  std::string drawn = drawable(text);
  return stb_easy_font_width(drawn.data());
}

void Canvas::text(int x, int y, int max_width, const std::string& text, Colour colour,
                  Direction direction) {
  std::string drawn = fitting(drawable(text), max_width);
  std::vector<char> quads(drawn.size() * 300 + 300);
  // Quads of 4 vertices of (x, y, z, colour), parallel to the axes.
  const int count = stb_easy_font_print(0, 0, drawn.data(), nullptr, quads.data(),
                                        static_cast<int>(quads.size()));
  for (int i = 0; i < count; ++i) {
    float low[2], high[2];
    std::memcpy(low, quads.data() + i * 64, sizeof low);
    std::memcpy(high, quads.data() + i * 64 + 32, sizeof high);
    for (int dy = static_cast<int>(low[1]); dy < static_cast<int>(high[1]); ++dy) {
      for (int dx = static_cast<int>(low[0]); dx < static_cast<int>(high[0]); ++dx) {
        if (direction == Direction::kRight) set(x + dx, y + dy, colour);
        if (direction == Direction::kUp) set(x + dy, y - dx, colour);
      }
    }
  }
}

Bytes Canvas::png() const {
  Bytes png;
  const auto append = [](void* to, void* data, int size) {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    static_cast<Bytes*>(to)->insert(static_cast<Bytes*>(to)->end(), bytes, bytes + size);
  };
  stbi_write_png_to_func(append, &png, width_, height_, 3, rgb_.data(), width_ * 3);
  return png;
}

}  // namespace trainer
