// Opens images for predictions, which need no labels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/dataset.h"

namespace trainer::data {

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

}  // namespace trainer::data
