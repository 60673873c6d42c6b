// What is known of pretrained weights beside their tensors.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "config/sections/data.h"
#include "config/sections/model.h"

namespace trainer::config {

// What was done to the images that weights were trained on: Resize(side / crop_fraction) and
// CenterCrop(side), or with `is_stretched` Resize(side) of both sides.
struct Preprocessing {
  std::int64_t side = 224;
  double crop_fraction = 1;
  bool is_stretched = false;
  Interpolation interpolation = Interpolation::kBilinear;
  std::array<double, 3> mean{}, std{};  // they are those of pixels from 0 to 1
};

// Returns data.crop_fraction for images of this side, with which the resize has the size of timm:
// side / crop_fraction, rounded down.
double find_crop_fraction(const Preprocessing& preprocessing, std::int64_t side);
// Returns the preset of these numbers; nothing if there is none.
std::optional<PreprocessPreset> find_preset(const Preprocessing& preprocessing);

struct WeightSource {
  std::string origin;  // a name, or the path of config.json; "" if nothing is known
  // Set if a name decides them, and unset for a file whose config.json does.
  std::optional<Backbone::Name> backbone;
  std::optional<Backbone::Variant> variant;
  std::optional<Preprocessing> preprocessing;
};

// Returns what is known from the name of the weights, and from config.json and
// preprocessor_config.json beside the file. Throws DataError for values that cannot be. Reasons:
// lib/decisions/config.md#the-names-in-a-weight-file-decide-the-variant-of-a-backbone.
WeightSource find_weight_source(const Model& model);

}  // namespace trainer::config
