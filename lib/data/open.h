// Opens the data sets that a config names.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/split.h"
#include "base/types.h"
#include "config/config.h"
#include "data/damaged_files.h"
#include "data/dataset.h"

namespace trainer::data {

// The splits of a config. Absent ones are null.
struct Datasets {
  std::unique_ptr<Dataset> train, validation, test;
  // For image files, otherwise null. Validation samples split off from training share train_files.
  std::shared_ptr<DamagedFiles> train_files, validation_files, test_files;
  std::vector<std::string> classes;  // in label order
  Shape image_shape;
  DType image_type = DType::kUInt8;
  bool label_is_index = true;
  std::int64_t num_classes = 0;
  // What the training loss of a sample of each class is multiplied by; all 1 when empty.
  std::vector<float> class_weight;
  // Whether the labels of `train` are rows with a weight: see weigh_samples().
  bool sample_weight = false;
  // Decodes some training images twice and returns the line on what data.scaled_decode does to
  // them, "" for nothing. Not set for data that are not image files.
  std::function<std::string()> scaled_decode_note;

  // Each returns the member of that split, which may be null.
  const std::unique_ptr<Dataset>& dataset(Split split) const {
    return split == Split::kTrain ? train : split == Split::kValidation ? validation : test;
  }
  std::unique_ptr<Dataset>& dataset(Split split) {
    return split == Split::kTrain ? train : split == Split::kValidation ? validation : test;
  }
  const std::shared_ptr<DamagedFiles>& files(Split split) const {
    return split == Split::kTrain        ? train_files
           : split == Split::kValidation ? validation_files
                                         : test_files;
  }
};
// Opens what the config names, or only one split of it. Checks that
// counts of images and labels agree and that labels lie in [0, classes).
Datasets open_datasets(const config::Data& data, std::uint64_t seed,
                       std::optional<Split> only = {});

}  // namespace trainer::data
