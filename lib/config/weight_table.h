// The published weights that fit a backbone, with what was done to the images they were trained on.
#pragma once

#include <cstdint>
#include <span>

#include "config/sections/data.h"
#include "config/sections/model.h"

namespace trainer::config {

struct WeightRow {
  const char* name;  // "timm/resnet50.a1_in1k", "torchvision/resnet50.IMAGENET1K_V2" or ORG/NAME
  Backbone::Name backbone;
  Backbone::Variant variant;
  std::int64_t side;     // the size of the images; 0 where preprocessor_config.json alone has it
  double crop_fraction;  // the share of the shorter side that is kept
  Interpolation interpolation;
  PreprocessPreset preset;
  const char* licence = "";  // "" if it is not known
  const char* file = "";     // the name of torchvision's file; "" for a repository of Hugging Face
};

// Returns all rows. scripts/weight_table.py writes them from timm and torchvision.
std::span<const WeightRow> weight_table();

}  // namespace trainer::config
