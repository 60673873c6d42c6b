// Opens images for predictions, which need no labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "config/config.h"
#include "data/dataset.h"

namespace trainer::data {

struct Images {
  std::unique_ptr<Dataset> dataset;
  bool labelled = false;  // all labels are 0 if this is false
  // Returns the reason why sample `index`, which has been read, is zeros instead of an image; "" if
  // it is an image. Empty for formats where this cannot happen.
  std::function<std::string(std::int64_t index)> damage = {};
};
// Opens the images of one file: IDX, NPY or NPZ, detected by its content. Only an NPZ file may have
// labels. Throws DataError.
Images open_images(const std::string& path);

// Returns whether a path leads to images for image_files(), in a file, a folder or a zip archive,
// rather than to arrays for open_images(). Decides by the first bytes of a file.
bool leads_to_image_files(const std::string& path);
// Returns whether image files lie in a folder or at any depth in its folders, which may be links.
bool contains_images(const std::string& folder);
// Returns the image files that a path denotes, sorted: the file itself, or the files below a folder
// without hidden ones. The path may lead into a zip archive, as photos.zip/test does; so do the
// paths that are returned then. Links to folders are followed directly in a folder that holds no
// image itself, whose folders may be those of classes; unless `note` is null, it becomes a line
// about the other links, "" if there are none. Throws DataError if there are no files.
std::vector<std::string> image_files(const std::string& path, std::string* note = nullptr);
// Returns whether a path is that of a list of image files (CSV or TSV), and the images it names.
// Paths count from the folder of the list. Throw DataError.
bool is_image_list(const std::string& path);
std::vector<std::string> list_image_files(const std::string& path, const config::Csv& csv);
// Opens image files, decoded and resized like an evaluation split of `data`, which must give resize
// and channels. get() reads the file. If `skip` is true, a damaged file gives zeros and a reason
// instead of a DataError.
Images open_image_files(const config::Data& data, const std::vector<std::string>& files, bool skip);

// Pixels of an image in memory. Strides are in bytes and may be negative; `data` is the first
// channel of the first pixel of the first row.
struct PixelView {
  const std::uint8_t* data = nullptr;
  int height = 0, width = 0, channels = 0;
  std::ptrdiff_t row_stride = 0, column_stride = 0, channel_stride = 0;
};
// The path of an image file, the bytes of one, or pixels.
using GivenImage = std::variant<std::string, std::span<const std::uint8_t>, PixelView>;
// Opens images as open_image_files() does with `skip`. Pixels are resized as those of a file are;
// grey ones also for models of colour, and colour also for grey. What is in memory must outlive the
// result.
Images open_given_images(const config::Data& data, std::vector<GivenImage> images);

}  // namespace trainer::data
