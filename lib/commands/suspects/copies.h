// Pictures that a data set has several times.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "commands/suspects/image_hash.h"

namespace trainer::commands {

// Returns the groups of pictures that are linked by pairs with nearly equal hashes whose thumbnails
// show the same picture, each in rising order. A picture without copies is in none. Compares all
// pairs: the time grows with the square of their number.
std::vector<std::vector<std::size_t>> find_copies(std::span<const PictureHash> pictures);

}  // namespace trainer::commands
