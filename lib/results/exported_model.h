// The file beside an exported ONNX model: what a program needs to feed it images and to read its
// output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/data.h"
#include "results/field.h"

namespace trainer::results {

// How image files become the input. Weights of the filter are integers, so that every processor
// gives the same pixels.
struct ExportedResize {
  config::Fit fit = config::Fit::kStretch;
  std::vector<std::int64_t> size;  // [height, width] before the crop
  config::Interpolation filter = config::Interpolation::kBilinear;
  bool antialias = true;
  bool scaled_decode = true;
  std::int64_t weight_bits = 15, row_bits = 6;
  std::vector<std::int64_t> range;  // [low, high]; empty for the upper bytes of 16-bit values
};

struct ExportedOperatingPoint {
  std::string criterion;
  std::vector<std::vector<double>> costs = {};  // a row per true class; or the next two
  std::string positive_class = {};
  std::optional<double> log_odds = {};  // infinite: the class is never decided for
};

struct ExportedModel {
  struct Input {
    std::string name, type;           // type: "float32" or "uint8"
    std::vector<std::int64_t> shape;  // [height, width, channels]
  };
  struct Normalize {
    bool reverse_channels = false;
    double scale = 1;
    std::vector<double> mean, std;  // one per channel
  };
  struct Output {
    std::string name;  // "logits" or "probabilities"
    std::string activation;
    bool several_labels = false;
    std::optional<double> temperature = {};
    std::vector<double> thresholds = {};  // one per class; empty for one class per image
  };

  Input input;
  std::optional<ExportedResize> resize;  // nothing if images are not resized
  Normalize normalize;
  std::vector<std::string> classes;
  Output output;
  std::optional<ExportedOperatingPoint> operating_point;
  std::string run;
  std::int64_t step = 0;
};
void fields(FieldVisitor& v, ExportedOperatingPoint& point);
void fields(FieldVisitor& v, ExportedModel& model);

}  // namespace trainer::results
