// `trainer predict --heatmap`: a heatmap beside each prediction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inference/predict/heatmap_files.h"

namespace trainer::commands {

struct HeatmapOptions {
  std::string folder;      // the folder of the files; no heatmaps when empty
  std::string class_name;  // the predicted class when empty
  std::string layer;       // see HeatmapMaker
  inference::HeatmapMethod method = inference::HeatmapMethod::kGradCam;
  bool overwrite = false;  // replaces existing files
};

// Draws the heatmaps of predictions into a folder.
class HeatmapWriter {
 public:
  // Makes the folder. `limit`: samples per input. Throws ConfigError as find_class(), HeatmapMaker
  // and HeatmapFolder do, and then makes nothing.
  HeatmapWriter(const HeatmapOptions& options, const inference::OpenedModel& opened,
                const std::vector<inference::PredictionInput>& inputs,
                std::optional<std::int64_t> limit);

  // Writes the heatmap of a prediction for `inputs[input]`, which is `data`. Returns its path.
  std::string write(std::size_t input, const inference::PredictionInput& data,
                    const results::Prediction& prediction);

 private:
  std::optional<std::int64_t> label_;  // the class to show; the predicted one without it
  inference::HeatmapMaker maker_;
  inference::HeatmapFolder folder_;
};

}  // namespace trainer::commands
