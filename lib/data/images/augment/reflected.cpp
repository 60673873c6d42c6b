#include "data/images/augment/reflected.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

namespace trainer::data {
namespace {

constexpr int kBlock = 64;         // pixels of a row whose loops the compiler vectorises
constexpr int kWord = 4;           // channels that are read together
constexpr float kFarthest = 1e6f;  // pixels; positions are cut to it

// The compiler vectorises this, and not std::clamp(), which takes references.
float clamp(float value, float low, float high) {
  value = value < low ? low : value;
  return value > high ? high : value;
}

// A linear function of the output's (x, y), relative to its centre.
struct Line {
  float x = 0, y = 0, shift = 0, centre = 0;

  float position(float dx, float dy) const {
    return clamp(x * dx + y * dy + shift + centre, -kFarthest, kFarthest);
  }
};

// Where each pixel of a block lies along an axis of the input.
struct Places {
  std::array<int, kBlock> before;   // the pixel at the position or before it
  std::array<float, kBlock> share;  // of the pixel after it
};

// Finds the places of a block that begins at dx = first - centre_x.
void find_places(const Line& line, int first, float centre_x, float dy, Places& to) {
  for (int i = 0; i < kBlock; ++i) {
    const float at = line.position(static_cast<float>(first + i) - centre_x, dy);
    const int cut = static_cast<int>(at);
    const int before = cut - static_cast<int>(static_cast<float>(cut) > at);
    to.before[i] = before;
    to.share[i] = at - static_cast<float>(before);
  }
}

// The offset of each pixel along an axis of the mirrored image.
class MirroredAxis {
 public:
  // Holds all places of `line` in an output of the given centre, and the pixels after them.
  MirroredAxis(const Line& line, float centre_x, float centre_y, int size, std::size_t stride) {
    const float reach_x = centre_x + kBlock, reach_y = centre_y;
    const float reach = std::abs(line.x) * reach_x + std::abs(line.y) * reach_y;
    const float middle = line.shift + line.centre;
    const float first = std::floor(clamp(middle - reach, -kFarthest, kFarthest));
    const float last = std::ceil(clamp(middle + reach, -kFarthest, kFarthest));
    first_ = static_cast<int>(first) - 2;
    offsets_.reserve(static_cast<std::size_t>(last - first) + 6);
    for (int i = first_; i <= static_cast<int>(last) + 3; ++i) {
      offsets_.push_back(static_cast<std::size_t>(mirror(i, size)) * stride);
    }
  }
  // Returns two entries: that of pixel i and that of the next.
  const std::size_t* find(int i) const { return offsets_.data() + (i - first_); }

 private:
  static int mirror(int i, int size) {
    const int period = 2 * size;
    i %= period;
    if (i < 0) i += period;
    return i < size ? i : period - 1 - i;
  }

  std::vector<std::size_t> offsets_;
  int first_ = 0;
};

using Words = std::array<std::uint32_t, kBlock>;  // a byte per channel, the first one lowest

// The four pixels around each position of a block.
struct Corners {
  Words top_left, top_right, bottom_left, bottom_right;
};

std::uint32_t read_word(const std::uint8_t* from) {
  std::uint32_t word;
  std::memcpy(&word, from, kWord);
  return word;
}

std::int32_t take_byte(std::uint32_t word, int channel) {
  return static_cast<std::int32_t>(word >> (8 * channel) & 255);
}

// Interpolates one channel of the words, and sets it in `words`.
void interpolate(const Corners& corners, const Places& columns, const Places& rows, int channel,
                 Words& words) {
  std::array<float, kBlock> values;
  for (int i = 0; i < kBlock; ++i) {
    const std::int32_t top = take_byte(corners.top_left[i], channel);
    const std::int32_t bottom = take_byte(corners.bottom_left[i], channel);
    const float above =
        static_cast<float>(top) +
        columns.share[i] * static_cast<float>(take_byte(corners.top_right[i], channel) - top);
    const float below =
        static_cast<float>(bottom) +
        columns.share[i] * static_cast<float>(take_byte(corners.bottom_right[i], channel) - bottom);
    const float value = above + rows.share[i] * (below - above);
    values[i] = clamp(value + 0.5f, 0, 255);
  }
  for (int i = 0; i < kBlock; ++i) {
    words[i] |= static_cast<std::uint32_t>(static_cast<int>(values[i])) << (8 * channel);
  }
}

// Reads the corners of a block, whose first channel is at `from` in each pixel.
void read_corners(const std::uint8_t* from, const MirroredAxis& x_axis, const MirroredAxis& y_axis,
                  const Places& columns, const Places& rows, Corners& to) {
  for (int i = 0; i < kBlock; ++i) {
    const std::size_t* across = x_axis.find(columns.before[i]);
    const std::size_t* down = y_axis.find(rows.before[i]);
    to.top_left[i] = read_word(from + down[0] + across[0]);
    to.top_right[i] = read_word(from + down[0] + across[1]);
    to.bottom_left[i] = read_word(from + down[1] + across[0]);
    to.bottom_right[i] = read_word(from + down[1] + across[1]);
  }
}

}  // namespace

void transform_reflected(const CentredAffine& m, Pixels& image) {
  const int height = image.height(), width = image.width(), channels = image.channels();
  thread_local std::vector<std::uint8_t> from;  // the image, and a word that may be read after it
  from.assign(image.data(), image.data() + image.size());
  from.resize(image.size() + kWord);
  const float centre_x = static_cast<float>(width - 1) / 2;
  const float centre_y = static_cast<float>(height - 1) / 2;
  const Line column{m.a, m.b, m.tx, centre_x}, row{m.c, m.d, m.ty, centre_y};
  const MirroredAxis x_axis(column, centre_x, centre_y, width, channels);
  const MirroredAxis y_axis(row, centre_x, centre_y, height, image.row_bytes());
  std::vector<std::uint8_t> out(image.row_bytes() + kBlock * channels + kWord);
  Places columns, rows;
  Corners corners;
  for (int y = 0; y < height; ++y) {
    const float dy = static_cast<float>(y) - centre_y;
    for (int x = 0; x < width; x += kBlock) {
      find_places(column, x, centre_x, dy, columns);
      find_places(row, x, centre_x, dy, rows);
      for (int first = (channels - 1) / kWord * kWord; first >= 0; first -= kWord) {
        read_corners(from.data() + first, x_axis, y_axis, columns, rows, corners);
        Words words{};
        for (int c = 0; c < std::min(kWord, channels - first); ++c) {
          interpolate(corners, columns, rows, c, words);
        }
        // A later write corrects the bytes beyond a pixel's channels.
        std::uint8_t* to = out.data() + x * channels + first;
        for (int i = 0; i < kBlock; ++i) std::memcpy(to + i * channels, &words[i], kWord);
      }
    }
    std::memcpy(image.row(y), out.data(), image.row_bytes());
  }
}

}  // namespace trainer::data
