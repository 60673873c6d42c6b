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
#include "data/loader.h"

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

// The facts that must be equal in all processes of a job, a line for each fact of each split ("test
// samples: 4000"): the classes, the number of samples, all labels, the content. `evaluation`:
// includes the validation and test splits.
std::string common_data(const Datasets& data, bool evaluation);

// Returns where the files of a split of an image format are; where data.path alone is given, the
// folder or list in it that is named after the split (see split_folders.h). Path and glob are empty
// if there is none. Throws DataError if it is not clear which folder is which split.
config::SplitFiles image_split(const config::Data& data, Split split);

// The images of one file: IDX, NPY or NPZ, detected by content. Only an NPZ file may have labels;
// otherwise all labels are 0.
struct Images {
  std::unique_ptr<Dataset> dataset;
  bool labelled = false;
  // Why sample `index`, which was read, is zeros instead of an image; "" when it is an image. Not
  // set for formats where this cannot happen.
  std::function<std::string(std::int64_t index)> damage = {};
};
Images open_images(const std::string& path);

// Whether a file holds arrays, to be opened by open_images, and not one image: by its first bytes.
bool is_array_file(const std::string& path);
// The image files that a path stands for: itself, or those below a folder, hidden ones left out,
// sorted; links to folders are not followed. `note`, unless null, becomes the line on such links,
// "" for none. Throws DataError when there are no files.
std::vector<std::string> image_files(const std::string& path, std::string* note = nullptr);
// Opens image files, decoded and resized like an evaluation split of `data`, which must give resize
// and channels. All labels are 0. get() reads the file. `skip`: a damaged file gives zeros and a
// reason instead of a DataError.
Images open_image_files(const config::Data& data, std::vector<std::string> files, bool skip);

// Whether `folder` has the IDX files of both splits, under MNIST's names.
bool has_digits(const std::string& folder);
// Writes the embedded ten-class digit set to four IDX files with MNIST's names in `folder`, unless
// they exist. Deterministic.
void generate_digits(const std::string& folder, std::int64_t train_samples = 20000,
                     std::int64_t test_samples = 4000);

}  // namespace trainer::data
