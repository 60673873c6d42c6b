// Opens the data sets that a config names.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/notice.h"
#include "base/process/progress.h"
#include "base/split.h"
#include "base/types.h"
#include "config/config.h"
#include "data/damaged_files.h"
#include "data/dataset.h"

namespace trainer::data {

// The splits of a config. A split that the config does not have is null.
struct Datasets {
  std::unique_ptr<Dataset> train, validation, test;
  // Null unless the samples are image files. Validation samples that are split off from the
  // training samples share train_files.
  std::shared_ptr<DamagedFiles> train_files, validation_files, test_files;
  std::vector<std::string> classes;  // the order is that of the labels
  // What decides this order: "data.classes", "text" or "number" (see data.class_order), or
  // "columns" of a list; "" for other formats.
  std::string class_order = {};
  // The values of 16-bit files that become 0 and 255, with `auto` resolved; nothing if their upper
  // bytes are used. The line on them is set if the training split was opened; "" for other files.
  std::optional<config::ValueRange> range = {};
  Notice range_notice = "";
  // The line on the file data.relabel; "" without one.
  Notice relabel_notice = "";
  // Further lines, if the training split was opened. On the groups of data.group_by: their number,
  // the shares of classes that are set aside, and a warning for groups in several splits. On
  // arrays: those that no split uses.
  std::vector<Notice> notices = {};
  Shape image_shape;
  DType image_type = DType::kUInt8;
  bool label_is_index = true;
  std::int64_t num_classes = 0;
  // The factor of the training loss of each class; empty if all are 1.
  std::vector<float> class_weight;
  // The factors of the terms of several labels: see graph::Loss::target_weight.
  std::vector<float> target_weight = {};
  // True if the labels of `train` are rows that end with a weight: see weigh_samples().
  bool sample_weight = false;
  // Decodes some training images twice and returns a line about the effect of data.scaled_decode on
  // them, "" if it has none. Empty for data that are not image files.
  std::function<std::string()> scaled_decode_note;

  // These functions return the member of a split, which may be null.
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
// Returns whether open_datasets() opens a validation split. Reads no samples.
bool has_validation(const config::Data& data);
// Opens the splits that the config names, or only `only`. Throws DataError for files that are
// missing or damaged, for different numbers of images and labels, and for a label outside
// [0, classes); throws MissingSplit if the config does not have the split. `progress` advances with
// the files that are listed and decoded.
Datasets open_datasets(const config::Data& data, std::uint64_t seed, std::optional<Split> only = {},
                       const Progress& progress = {});

}  // namespace trainer::data
