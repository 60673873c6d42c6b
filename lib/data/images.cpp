// Files of images for predictions: no labels needed.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "data/array.h"

namespace trainer::data {
namespace {

std::string pick(const std::vector<std::string>& held, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::find(held.begin(), held.end(), name) != held.end()) return name;
  }
  return "";
}

Array no_labels(const Array& images) {
  Array labels;
  labels.source = images.source;
  labels.dims = {images.dims.empty() ? 0 : images.dims[0]};
  labels.buffer = Buffer(static_cast<std::size_t>(labels.dims[0]));
  std::fill_n(labels.buffer.data(), labels.buffer.size(), std::uint8_t{0});
  return labels;
}

Images unlabelled(Array images) {
  Array labels = no_labels(images);
  return {std::make_unique<MemoryDataset>(std::move(images), std::move(labels)), false};
}

Images open_archive(const std::string& path) {
  const std::vector<std::string> held = npz_names(path);
  std::string images = pick(held, {"images", "x", "x_test", "test_images"});
  const std::string labels = pick(held, {"labels", "y", "y_test", "test_labels"});
  if (images.empty() && held.size() == 1) images = held[0];
  if (images.empty()) {
    std::string text;
    for (const std::string& name : held) text += (text.empty() ? "" : ", ") + name;
    throw DataError(path, "holds the arrays " + text + "; expected one called images or x");
  }
  if (labels.empty()) return unlabelled(read_npz(path, images));
  return {std::make_unique<MemoryDataset>(read_npz(path, images), read_npz(path, labels)), true};
}

}  // namespace

Images open_images(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw DataError(path, "no such file; expected images as IDX, NPY or NPZ");
  }
  if (is_zip(path)) return open_archive(path);
  const Bytes start = read_file_start(path, 6);
  const bool npy = start.size() == 6 && std::memcmp(start.data(), "\x93NUMPY", 6) == 0;
  return unlabelled(npy || path.ends_with(".npy.gz") ? read_npy(path) : read_idx(path));
}

}  // namespace trainer::data
