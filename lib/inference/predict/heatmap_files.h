// The names and files of heatmaps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "inference/predict/heatmap.h"

namespace trainer::inference {

// Returns the file names of the heatmaps of the first `limit` samples of each input, by input and
// sample. No two are equal: a file is named by its path below the folder that all files have in
// common, with '_' for each '/', and a number follows if that is taken.
std::vector<std::vector<std::string>> name_heatmaps(const std::vector<PredictionInput>& inputs,
                                                    std::optional<std::int64_t> limit);

// A folder of heatmaps.
class HeatmapFolder {
 public:
  // Makes the folder. Throws ConfigError, and makes nothing, if `folder` is a file or if it has a
  // file of one of the names while `overwrite` is false.
  HeatmapFolder(Path folder, std::vector<std::vector<std::string>> names, bool overwrite);

  // The path of a sample's heatmap.
  std::string path(std::size_t input, std::int64_t index) const;
  // Writes it as PNG.
  void write(std::size_t input, std::int64_t index, const HeatmapPicture& picture) const;

 private:
  Path folder_;
  std::vector<std::vector<std::string>> names_;
};

}  // namespace trainer::inference
