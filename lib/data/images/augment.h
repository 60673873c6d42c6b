// Random changes of training images.
// Reasons: lib/decisions/data.md#augmentation-stays-in-the-loader.
#pragma once

#include <optional>
#include <vector>

#include "base/random.h"
#include "config/config.h"
#include "data/images/resize/resize.h"

namespace trainer::data {

using Augmentations = std::vector<config::Augmentation>;
// torchvision's RandomResizedCrop.get_params; none when the list does not start with one.
std::optional<Geometry> random_crop_geometry(const Augmentations& list, Random& random, int height,
                                             int width, int out_height, int out_width);
// All but random_resized_crop, mixup and cutmix, on an image of the final size.
void augment(const Augmentations& list, Random& random, Pixels& image);

}  // namespace trainer::data
