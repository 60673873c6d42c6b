#include "data/arrays/memory_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/finite.h"
#include "base/text.h"
#include "data/samples/splits.h"

namespace trainer::data {
namespace {

Shape shape_of(const Array& images) {
  const auto& d = images.dims;
  if (d.size() == 4) return {d[1], d[2], d[3]};
  if (d.size() == 3) return {d[1], d[2], 1};
  if (d.size() == 2) return {1, 1, d[1]};
  throw DataError(images.source, "has ", d.size(),
                  " dimensions; images need [n, height, width], [n, height, width, channels]"
                  " or [n, features]. Are images and labels swapped?");
}

// Keeps bytes and float32, and converts every other type to float32: booleans are 0 and 1, which
// bytes, of which 255 is white, are not.
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
  // [n, 1, 1] and [n, 1, targets] are common, too.
  std::vector<std::int64_t>& d = labels.dims;
  if (d.size() > 2) d.erase(std::remove(d.begin() + 1, d.end(), 1), d.end());
  if (d.empty() || d.size() > 2 || (d.size() == 2 && d[1] < 1)) {
    throw DataError(labels.source, "has ", d.size(),
                    " dimensions; labels need [n] (class indices) or ",
                    "[n, targets]. Are images and labels swapped?");
  }
  if (d[0] != size()) {
    throw DataError(labels.source, "contains ", d[0], " labels, but ", images_.source, " contains ",
                    size(), " images; they must be of the same split");
  }
  spec_.label_width = d.size() == 2 ? d[1] : 1;
  const std::int64_t count = labels.count();
  if (spec_.label_width == 1 && !is_float(labels.element)) {
    indices_.resize(count);
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = labels.at(i);
      if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) {
        throw DataError(labels.source, "sample ", i, " has the label ", value,
                        "; class indices count from 0");
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

LabelSet MemoryDataset::label_set_at(std::int64_t index) const {
  return label_sets_ ? label_sets_->at(set_indices_[index]) : LabelSet{};
}

bool MemoryDataset::has_columns_of_labels() const {
  return spec_.label_width > 1 && std::ranges::all_of(targets_, [](float target) {
           return target == 0 || target == 1 || std::isnan(target);
         });
}

void MemoryDataset::take_columns_as_labels() {
  spec_.label_kind = LabelKind::kMultiLabel;
  label_sets_ = std::make_unique<LabelSets>(spec_.label_width);
  const float* target = targets_.data();
  for (std::int64_t i = 0; i < size(); ++i) {
    std::vector<std::int32_t> present, unknown;
    for (std::int32_t label = 0; label < spec_.label_width; ++label, ++target) {
      if (std::isnan(*target)) {
        unknown.push_back(label);
      } else if (*target > 0) {
        present.push_back(label);
      }
    }
    set_indices_.push_back(label_sets_->add(std::move(present), std::move(unknown)));
  }
}

void MemoryDataset::check_shares() const {
  const auto other =
      std::ranges::find_if(targets_, [](float target) { return target < 0 || target > 1; });
  if (other == targets_.end()) return;
  throw DataError(label_source_, "the label of sample ",
                  (other - targets_.begin()) / spec_.label_width, " (from 0) holds ", *other,
                  "; binary_cross_entropy takes 0 and 1, numbers between them, or, among "
                  "several labels per sample, NaN for an unknown label");
}

std::int64_t MemoryDataset::max_label() const {
  if (indices_.empty()) return -1;
  const auto largest = std::ranges::max_element(indices_);
  if (*largest < max_classes(size())) return *largest;
  throw DataError(label_source_, "sample ", largest - indices_.begin(), " has the label ", *largest,
                  ", which would make ", std::int64_t{*largest} + 1, " classes of ", size(),
                  " samples; number the classes from 0, or set data.num_classes");
}

void MemoryDataset::check_labels(std::int64_t num_classes) const {
  for (std::size_t i = 0; i < indices_.size(); ++i) {
    if (indices_[i] < num_classes) continue;
    throw DataError(label_source_, "sample ", i, " has the label ", indices_[i], ", but there are ",
                    num_classes, " classes (0 to ", num_classes - 1,
                    "); set data.num_classes or data.classes to the classes of the files");
  }
}

void MemoryDataset::check_finite(const std::string& split) const {
  const auto check = [&](const std::string& source, const char* what, const std::uint8_t* values,
                         std::size_t width) {
    std::vector<float> row(width);
    std::int64_t first = -1, count = 0;
    for (std::int64_t i = 0; i < size(); ++i) {
      // The elements of a file may not be aligned.
      std::memcpy(row.data(), values + static_cast<std::size_t>(i) * width * sizeof(float),
                  width * sizeof(float));
      if (all_finite(row)) continue;
      if (count++ == 0) first = i;
    }
    if (count == 0) return;
    throw DataError(source, what, "sample ", first, " (from 0)",
                    split.empty() ? "" : concat(" of the ", split), " holds NaN or infinity",
                    count == 1 ? "; correct or remove it"
                               : concat(", as do ", count - 1, " more of the ", size(),
                                        " samples; correct or remove them"),
                    " (numpy.isfinite finds such values)");
  };
  if (spec_.image_type == DType::kFloat32) {
    check(images_.source, "", images_.bytes(), image_bytes_ / sizeof(float));
  }
  if (!targets_.empty() && !spec_.is_multi_label()) {  // NaN is an unknown label
    check(label_source_, "the label of ", reinterpret_cast<const std::uint8_t*>(targets_.data()),
          spec_.label_width);
  }
}

}  // namespace trainer::data
