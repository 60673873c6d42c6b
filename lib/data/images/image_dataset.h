// Makes data sets of image files.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/process/progress.h"
#include "config/sections/data.h"
#include "data/damaged_files.h"
#include "data/dataset.h"
#include "data/images/listing/image_list.h"

namespace trainer::data {

struct ImageSplit {
  std::unique_ptr<Dataset> dataset;
  std::shared_ptr<DamagedFiles> files;
  std::function<std::string()> scaled_decode_note;  // see Datasets
};
// Only the training split has random changes and replaces damaged files. With on_error: skip, this
// decodes all files and leaves the damaged ones out of the samples; `progress` advances with the
// files. Throws DataError.
ImageSplit make_image_dataset(const config::Data& data, ImageList list,
                              const std::vector<std::string>& classes, std::uint64_t seed,
                              bool training, const Progress& progress = {});

}  // namespace trainer::data
