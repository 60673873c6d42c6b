// Hashes by which copies of a picture are found after it was recompressed or resized.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace trainer::commands {

// A picture as grey levels, small.
struct Thumbnail {
  static constexpr int kSide = 32;
  std::array<std::uint8_t, std::size_t{kSide} * kSide> grey{};
};

struct PictureHash {
  // The difference hash (N. Krawetz, "Kind of Like That", hackerfactor.com, 2013; `dhash` of
  // Python's imagehash): whether each pixel of the grey picture, resized to 9 x 8, is darker than
  // the one to the right of it.
  std::uint64_t bits = 0;
  Thumbnail thumbnail;
};

// Hashes a picture of bytes [height, width, channels]. Three channels are red, green and blue,
// whose grey is that of ITU-R 601; of other numbers of channels the mean counts.
PictureHash hash_picture(std::span<const std::uint8_t> pixels, int height, int width, int channels);

// Returns the number of bits that differ.
int find_distance(std::uint64_t a, std::uint64_t b);

// Returns whether two thumbnails show the same picture: the correlation of their grey levels is at
// least 0.985, or, if one has nearly no contrast, all levels are nearly equal. Recompressed and
// resized copies of photos have at least 0.995, different chest X-rays at most 0.973.
bool show_same_picture(const Thumbnail& a, const Thumbnail& b);

}  // namespace trainer::commands
