// Pictures of samples in an HTML page, and lists of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"

namespace trainer::results {

struct Picture {
  int width = 0, height = 0;
  std::string url;  // a data: URL; "" for no picture
};

// Encodes an image of bytes in [height, width, channels] as a data: URL, PNG when small and JPEG
// otherwise. The longer side is shrunk to 256 pixels as far as the shorter one allows. Of an image
// that has neither 1 nor 3 channels, the first channel is shown.
Picture encode_picture(const std::vector<std::uint8_t>& pixels, const Shape& shape);

// A line of a caption, with a name in bold.
struct CaptionLine {
  std::string before, name, after;
};

// A sample with its picture and a caption.
struct SampleTile {
  Picture picture, heatmap;                // the heatmap is shown beside the picture
  std::string picture_text, heatmap_text;  // describe the pictures for readers who do not see them
  std::vector<CaptionLine> lines;          // lines of the caption
  std::string name;                        // the path of its file; the end of it is the last line
  bool is_wrong = false;                   // marks the tile
};
// Returns the tiles as a list that fills the width of the page.
std::string sample_list(const std::vector<SampleTile>& tiles);

}  // namespace trainer::results
