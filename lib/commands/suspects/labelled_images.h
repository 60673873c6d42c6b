// The images of all splits of a config with their labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/split.h"
#include "config/config.h"
#include "data/open.h"

namespace trainer::commands {

struct LabelledImage {
  Split split = Split::kTrain;
  std::int64_t index = 0;  // the index in the data set of the split
  std::string path;        // see data::Dataset::describe()
  std::int32_t label = 0;
};

// Opens all splits of a config and lists their images without reading them.
class LabelledImages {
 public:
  // Throws DataError, and ConfigError if an image does not have one class.
  explicit LabelledImages(const config::Config& config);

  const std::vector<LabelledImage>& all() const { return images_; }
  const std::vector<std::string>& classes() const { return sets_.classes; }
  std::size_t num_classes() const { return sets_.num_classes; }
  // Returns the name of a class, or its number if it has none.
  std::string class_name(std::int32_t label) const;
  const data::Dataset& dataset(Split split) const { return *sets_.dataset(split); }
  // The shape and type of all images.
  const data::DatasetSpec& spec() const { return dataset(images_.front().split).spec(); }

  // Returns the images with the path, which may be printable(), those of the split `first` first.
  // There are several of a list that names a file several times, and of arrays, whose images have
  // numbers in each split.
  std::vector<std::size_t> find(const std::string& path, Split first) const;

 private:
  data::Datasets sets_;
  std::vector<LabelledImage> images_;
  std::multimap<std::string, std::size_t> by_path_;  // keyed by printable()
};

}  // namespace trainer::commands
