// Contact sheets of images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/types.h"
#include "config/config.h"
#include "data/dataset.h"

namespace trainer::results {

// An image of a sheet.
struct Tile {
  std::vector<std::uint8_t> image;  // bytes of the sheet's shape
  std::vector<std::string> lines;   // text beneath it; the end of a long last line is shown
};
// Returns a PNG with the tiles in rows. The images have this shape, [height, width, channels].
Bytes draw_tiles(const Shape& shape, const std::vector<Tile>& tiles);
// Returns a PNG with the first `samples` images of a training run with this seed, as the model gets
// them, ordered by class, with the names of their classes and files beneath. Empty for images of
// floats.
Bytes draw_sheet(const data::Dataset& set, const std::vector<std::string>& classes,
                 const config::Data& config, std::uint64_t seed, std::int64_t samples);
// Writes such a PNG of the training split of a config to `path`. Throws ConfigError for a config
// whose samples cannot be drawn.
void write_sheet(const config::Data& data, std::uint64_t seed, std::int64_t samples,
                 const std::string& path);
// Returns {"event":"sheet","path":PATH} and a line end.
std::string sheet_json(const std::string& path);

}  // namespace trainer::results
