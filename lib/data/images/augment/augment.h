// Applies random changes to training images.
// Reasons: lib/decisions/data.md#augmentation-stays-in-the-loader.
#pragma once

#include <optional>
#include <vector>

#include "base/numbers/random.h"
#include "config/sections/augmentation.h"
#include "data/images/augment/denormalizer.h"
#include "data/images/resize/resize.h"

namespace trainer::data {

using Augmentations = std::vector<config::Augmentation>;
// Draws the crop of random_resized_crop like RandomResizedCrop.get_params of torchvision; nullopt
// if the list does not start with this entry.
std::optional<Geometry> random_crop_geometry(const Augmentations& list, Random& random, int height,
                                             int width, int out_height, int out_width);
// Applies all entries except random_resized_crop, mixup and cutmix to an image of the final size.
// `denormalizer` is that of the images' normalization.
void augment(const Augmentations& list, const Denormalizer& denormalizer, Random& random,
             Pixels& image);

}  // namespace trainer::data
