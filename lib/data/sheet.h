// Contact sheets of training images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "config/config.h"
#include "data/dataset.h"

namespace trainer::data {

// A PNG with the first `samples` images of an order drawn from the seed as the model gets them in
// training, random changes included, with their class names beneath. Empty for images of floats.
Bytes draw_sheet(const Dataset& set, const std::vector<std::string>& classes,
                 const config::Data& config, std::uint64_t seed, std::int64_t samples);
// The same, of the training split of a config, as a file.
void write_sheet(const config::Data& data, std::uint64_t seed, std::int64_t samples,
                 const std::string& path);
// {"event":"sheet","path":PATH}
std::string sheet_json(const std::string& path);

}  // namespace trainer::data
