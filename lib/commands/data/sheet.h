// Contact sheets of images.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "config/config.h"
#include "data/dataset.h"

namespace trainer::commands {

// Returns a PNG with `count` images of bytes of this spec, in rows. `read` writes an image and
// returns the text beneath it.
Bytes draw_tiles(const data::DatasetSpec& spec, int count,
                 const std::function<std::string(int tile, std::uint8_t* image)>& read);
// Returns a PNG with the first `samples` images of a training run with this seed, as the model gets
// them, and their class names beneath. Empty for images of floats.
Bytes draw_sheet(const data::Dataset& set, const std::vector<std::string>& classes,
                 const config::Data& config, std::uint64_t seed, std::int64_t samples);
// Writes such a PNG of the training split of a config to `path`. Throws ConfigError for a config
// whose samples cannot be drawn.
void write_sheet(const config::Data& data, std::uint64_t seed, std::int64_t samples,
                 const std::string& path);
// Returns {"event":"sheet","path":PATH} and a line end.
std::string sheet_json(const std::string& path);

}  // namespace trainer::commands
