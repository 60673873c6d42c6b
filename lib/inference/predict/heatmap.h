// Heatmaps: which parts of an image speak for a class, and pictures of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/class_activation.h"
#include "inference/predict/predict.h"

namespace trainer::inference {

enum class HeatmapMethod {
  kGradCam,   // engine::ClassActivation
  kOcclusion  // the drop of the class's probability where a patch of the mean colour hides the
              // image
};

// A picture of bytes [height, width, 3].
struct HeatmapPicture {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

class HeatmapMaker {
 public:
  // Draws samples like those of `inputs`. kGradCam uses `layer`, see model::find_feature_map().
  // kGradCam runs on the CPU in float32, kOcclusion on the devices of the config. Throws
  // ConfigError if the model has no such layer.
  HeatmapMaker(const OpenedModel& opened, const std::vector<PredictionInput>& inputs,
               HeatmapMethod method, const std::string& layer);

  // Returns the map of a class for an image of read_image(), at each pixel of what the model gets:
  // numbers from 0 to 1, the largest of which is 1, or all of them 0 where nothing speaks for the
  // class.
  engine::PositionMap compute(const std::vector<std::byte>& image, std::int64_t label);

  // Returns the image with the map over it.
  HeatmapPicture draw(const data::Dataset& dataset, std::int64_t index, std::int64_t label);

 private:
  engine::PositionMap occlude(const std::vector<std::byte>& image, std::int64_t label);

  LossKind loss_;
  data::DatasetSpec spec_;
  std::unique_ptr<engine::Engine> engine_;  // kOcclusion uses it
  // Only kGradCam uses these two.
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<engine::ClassActivation> activation_;
};

// Enlarges a map bilinearly. Positions stand for equal parts of the image, and the outer ones reach
// to its edge.
engine::PositionMap enlarge(const engine::PositionMap& map, std::int64_t height,
                            std::int64_t width);

// Lays a map of numbers from 0 to 1 over an image of bytes [height, width, channels], from blue for
// 0 over green and yellow to red for 1. An image that has not 3 channels is shown by its first one,
// in grey.
HeatmapPicture lay_over(const std::vector<std::uint8_t>& pixels, std::int64_t channels,
                        const engine::PositionMap& map);

}  // namespace trainer::inference
