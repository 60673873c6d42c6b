#include "data/arrays/memory_dataset.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "data/arrays/array.h"
#include "data/samples/splits.h"

namespace trainer::data {
namespace {

Shape shape_of(const Array& images) {
  const auto& d = images.dims;
  if (d.size() == 4) return {d[1], d[2], d[3]};
  if (d.size() == 3) return {d[1], d[2], 1};
  if (d.size() == 2) return {1, 1, d[1]};
  throw DataError(images.source,
                  concat("has ", d.size(),
                         " dimensions; images need [n, height, width], [n, height, width, channels]"
                         " or [n, features]. Are images and labels swapped?"));
}

// Keeps bytes and float32, and converts every other type to float32.
Array as_image(Array images) {
  if (images.element == Element::kU8 || images.element == Element::kF32) return images;
  const std::int64_t count = images.count();
  Buffer converted(count * sizeof(float));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(images.at(i));
    std::memcpy(converted.data() + i * sizeof value, &value, sizeof value);
  }
  images.buffer = std::move(converted);
  images.offset = 0;
  images.element = Element::kF32;
  return images;
}

}  // namespace

MemoryDataset::MemoryDataset(Array images, Array labels)
    : images_(as_image(std::move(images))),
      label_source_(labels.source),
      spec_{shape_of(images_),
            images_.element == Element::kU8 ? DType::kUInt8 : DType::kFloat32,
            LabelKind::kIndex,
            1,
            false,
            true},
      image_bytes_(spec_.image_bytes()) {
  if (size() == 0) throw DataError(images_.source, "contains no images");
  if (image_bytes_ == 0) throw DataError(images_.source, "contains images without pixels");
  const auto& d = labels.dims;
  if (d.empty() || d.size() > 2 || (d.size() == 2 && d[1] < 1)) {
    throw DataError(labels.source,
                    concat("has ", d.size(), " dimensions; labels need [n] (class indices) or ",
                           "[n, targets]. Are images and labels swapped?"));
  }
  if (d[0] != size()) {
    throw DataError(labels.source,
                    concat("contains ", d[0], " labels, but ", images_.source, " contains ", size(),
                           " images; they must be of the same split"));
  }
  spec_.label_width = d.size() == 2 ? d[1] : 1;
  const std::int64_t count = labels.count();
  if (spec_.label_width == 1 && !is_float(labels.element)) {
    indices_.resize(count);
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = labels.at(i);
      if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) {
        throw DataError(labels.source, concat("sample ", i, " has the label ", value,
                                              "; class indices count from 0"));
      }
      indices_[i] = static_cast<std::int32_t>(value);
    }
  } else {
    spec_.label_kind = LabelKind::kTargets;
    targets_.resize(count);
    for (std::int64_t i = 0; i < count; ++i) {
      targets_[i] = static_cast<float>(labels.at(i));
    }
  }
}

void MemoryDataset::get(std::int64_t index, std::int64_t, void* image, void* label) const {
  const std::size_t i = index;
  std::memcpy(image, images_.bytes() + i * image_bytes_, image_bytes_);
  if (spec_.label_is_index()) {
    std::memcpy(label, &indices_[i], sizeof(std::int32_t));
  } else {
    const std::size_t width = spec_.label_width;
    std::memcpy(label, &targets_[i * width], width * sizeof(float));
  }
}

// All labels and 64 images spread over the set distinguish data sets, in microseconds.
std::string MemoryDataset::fingerprint() const {
  const auto as_bytes = [](const auto& values) {
    return std::span(reinterpret_cast<const std::uint8_t*>(values.data()),
                     values.size() * sizeof(values[0]));
  };
  std::uint32_t crc = crc32c(as_bytes(indices_));
  crc = crc32c(as_bytes(targets_), crc);
  const std::int64_t stride = std::max<std::int64_t>(1, size() / 64);
  for (std::int64_t i = 0; i < size(); i += stride) {
    crc = crc32c({images_.bytes() + static_cast<std::size_t>(i) * image_bytes_, image_bytes_}, crc);
  }
  return concat(size(), " x ", to_string(spec_.image_shape), " ", to_string(spec_.image_type),
                " crc32c ", to_hex(crc));
}

std::string MemoryDataset::content_key() const {
  const std::size_t bytes = static_cast<std::size_t>(size()) * image_bytes_;
  return concat(fingerprint(), " all ", to_hex(crc32c({images_.bytes(), bytes})));
}

std::int64_t MemoryDataset::max_label() const {
  if (indices_.empty()) return -1;
  const auto largest = std::ranges::max_element(indices_);
  if (*largest < max_classes(size())) return *largest;
  throw DataError(label_source_,
                  concat("sample ", largest - indices_.begin(), " has the label ", *largest,
                         ", which would make ", std::int64_t{*largest} + 1, " classes of ", size(),
                         " samples; number the classes from 0, or set data.num_classes"));
}

void MemoryDataset::check_labels(std::int64_t num_classes) const {
  for (std::size_t i = 0; i < indices_.size(); ++i) {
    if (indices_[i] < num_classes) continue;
    throw DataError(label_source_,
                    concat("sample ", i, " has the label ", indices_[i], ", but there are ",
                           num_classes, " classes (0 to ", num_classes - 1,
                           "); set data.num_classes or data.classes to the classes of the files"));
  }
}

}  // namespace trainer::data
