// The pixels of a sample, to be shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/dataset.h"

namespace trainer::inference {

// The image of a sample without random changes: spec().image_bytes() bytes.
std::vector<std::byte> read_image(const data::Dataset& dataset, std::int64_t index);

// Returns bytes [height, width, channels] for an image of read_image(). Floats become bytes from 0,
// the least, to 255; those that are not finite become 0. Empty for images of another type.
std::vector<std::uint8_t> to_pixels(const std::vector<std::byte>& image,
                                    const data::DatasetSpec& spec);

}  // namespace trainer::inference
