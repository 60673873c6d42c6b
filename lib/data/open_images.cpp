#include "data/open_images.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "data/arrays/array.h"
#include "data/arrays/idx.h"
#include "data/arrays/memory_dataset.h"
#include "data/arrays/npz.h"
#include "data/arrays/split_arrays.h"
#include "data/images/image_dataset.h"
#include "data/images/image_reader.h"
#include "data/images/listing/csv.h"
#include "data/images/listing/folders.h"
#include "data/images/listing/image_list.h"
#include "data/images/listing/zip_folder.h"

namespace trainer::data {
namespace {

Array no_labels(const Array& images) {
  Array labels;
  labels.source = images.source;
  labels.dims = {images.dims.empty() ? 0 : images.dims[0]};
  labels.buffer = Buffer(labels.dims[0]);
  std::fill_n(labels.buffer.data(), labels.buffer.size(), std::uint8_t{0});
  return labels;
}

Images make_images(Array images, Array labels, bool are_labelled) {
  auto dataset = std::make_unique<MemoryDataset>(std::move(images), std::move(labels));
  dataset->check_finite("");
  return {std::move(dataset), are_labelled};
}

Images unlabelled(Array images) {
  Array labels = no_labels(images);
  return make_images(std::move(images), std::move(labels), false);
}

Images open_archive(const std::string& path) {
  const std::vector<std::string> held = npz_names(path);
  auto [images, labels] = find_split_arrays(path, held, Split::kTest, true);
  if (images.empty() && held.size() == 1) images = held[0];
  if (images.empty()) {
    throw DataError(path, "contains the arrays " + join(held) + "; expected one named images or x");
  }
  if (labels.empty()) return unlabelled(read_npz(path, images));
  return make_images(read_npz(path, images), read_npz(path, labels), true);
}

// Image files some of which may be damaged; a damaged file gives zeros.
class TolerantDataset final : public Dataset {
 public:
  explicit TolerantDataset(std::unique_ptr<Dataset> base) : base_(std::move(base)) {}
  std::int64_t size() const override { return base_->size(); }
  const DatasetSpec& spec() const override { return base_->spec(); }
  std::string describe(std::int64_t index) const override { return base_->describe(index); }
  std::string fingerprint() const override { return base_->fingerprint(); }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
    try {
      base_->get(index, epoch, image, label);
    } catch (const DataError& error) {
      std::memset(image, 0, spec().image_bytes());
      const std::lock_guard lock(mutex_);
      reasons_[index] = error.what();
    }
  }
  // Returns the reason why sample `index` is zeros; "" if it is an image.
  std::string reason(std::int64_t index) const {
    const std::lock_guard lock(mutex_);
    const auto found = reasons_.find(index);
    return found == reasons_.end() ? "" : found->second;
  }

 private:
  std::unique_ptr<Dataset> base_;
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, std::string> reasons_;
};

// Images of several origins, without labels.
class GivenImages final : public Dataset {
 public:
  GivenImages(const config::Data& data, std::vector<GivenImage> images)
      : reader_(data), max_pixels_(data.max_pixels), images_(std::move(images)) {
    spec_.image_shape = {reader_.height(), reader_.width(), reader_.channels()};
    spec_.in_memory = images_.size() == 1;  // no thread is worth starting
  }
  std::int64_t size() const override { return std::ssize(images_); }
  const DatasetSpec& spec() const override { return spec_; }
  std::string fingerprint() const override { return concat(size(), " given images"); }
  std::string describe(std::int64_t index) const override {
    const auto* path = std::get_if<std::string>(&images_[index]);
    return path != nullptr ? *path : concat("image ", index);
  }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t, void* image, void* label) const override {
    std::memset(label, 0, spec_.label_bytes());
    auto* out = static_cast<std::uint8_t*>(image);
    if (const auto* view = std::get_if<PixelView>(&images_[index])) {
      const Pixels& pixels = copy(*view, describe(index));
      return reader_.resize(pixels, reader_.fit(pixels.height(), pixels.width()), out);
    }
    constexpr auto kScale = ImageReader::Scale::kReduced;
    const auto* path = std::get_if<std::string>(&images_[index]);
    const ImageReader::Decoded decoded =
        path != nullptr ? reader_.decode(find_image(*path).stored(), kScale)
                        : reader_.decode(std::get<std::span<const std::uint8_t>>(images_[index]),
                                         describe(index), kScale);
    reader_.resize(decoded.pixels, decoded.geometry, out);
  }

 private:
  // Returns the pixels, grey if the model takes grey images. They are valid until the next call of
  // the same thread.
  const Pixels& copy(const PixelView& view, const std::string& name) const {
    const int channels = reader_.channels();
    const bool is_to_grey = channels == 1 && view.channels == 3;
    if (view.channels != channels && !is_to_grey && (channels != 3 || view.channels != 1)) {
      throw DataError(name, "has ", view.channels, " channels; expected ", channels,
                      channels == 3 ? ", or 1 of grey pixels" : "",
                      channels == 1 ? ", or 3 of red, green and blue" : "");
    }
    if (view.height < 1 || view.width < 1 || view.height > kMaxImageSide ||
        view.width > kMaxImageSide || std::int64_t{view.height} * view.width > max_pixels_) {
      throw DataError(name, "has ", view.height, " x ", view.width,
                      " pixels; expected at least 1 x 1 and at most ", max_pixels_);
    }
    thread_local Pixels pixels;
    pixels.reset(view.height, view.width, is_to_grey ? 1 : view.channels);
    std::uint8_t* out = pixels.data();
    for (int y = 0; y < view.height; ++y) {
      for (int x = 0; x < view.width; ++x) {
        const std::uint8_t* in = view.data + y * view.row_stride + x * view.column_stride;
        const auto value = [&](int channel) { return in[channel * view.channel_stride]; };
        if (is_to_grey) {
          *out++ = luma(value(0), value(1), value(2));
          continue;
        }
        for (int channel = 0; channel < view.channels; ++channel) *out++ = value(channel);
      }
    }
    return pixels;
  }

  ImageReader reader_;
  std::int64_t max_pixels_;
  std::vector<GivenImage> images_;
  DatasetSpec spec_;
};

Images make_tolerant(std::unique_ptr<Dataset> dataset) {
  auto tolerant = std::make_unique<TolerantDataset>(std::move(dataset));
  const TolerantDataset* set = tolerant.get();
  return {std::move(tolerant), false, [set](std::int64_t index) { return set->reason(index); }};
}

// Returns whether the first bytes of a file are those of arrays and not of one image.
bool is_array_file(const std::string& path) {
  if (is_zip(path)) {
    const auto place = find_zip_place(path);
    return !place || !holds_images(*place);
  }
  const Bytes start = read_file_start(path, 6);
  if (start.size() < 4) return false;
  const bool gzip = start[0] == 0x1F && start[1] == 0x8B;
  const bool idx = start[0] == 0 && start[1] == 0 && start[2] >= 8 && start[3] > 0;
  return gzip || idx || std::memcmp(start.data(), "\x93NUM", 4) == 0;
}

// Lists the images below a folder. Folders in one without images of its own may be those of
// classes, so that links among them are followed, as in training.
FolderContents list_images(const std::string& path) {
  FolderContents contents = list_below(path);
  if (contents.folder_links.count == 0 || find_loose_images(path).count > 0) return contents;
  contents.images.clear();
  contents.folder_links = {};
  for (const std::string& name : sub_folders(path)) {
    const FolderContents inner = list_below(Path(path) / name);
    contents.images.insert(contents.images.end(), inner.images.begin(), inner.images.end());
    contents.folder_links.add(inner.folder_links);
  }
  std::ranges::sort(contents.images, {}, &ListedFile::path);
  return contents;
}

}  // namespace

bool leads_to_image_files(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return !is_array_file(path);
  return std::filesystem::is_directory(path, error) || find_zip_place(path).has_value();
}

bool contains_images(const std::string& folder) {
  if (holds_images(folder)) return true;
  const std::vector<std::string> inner = sub_folders(folder);
  return std::ranges::any_of(
      inner, [&](const std::string& name) { return holds_images(Path(folder) / name); });
}

std::vector<std::string> image_files(const std::string& path, std::string* note) {
  if (note != nullptr) note->clear();
  const auto place = find_zip_place(path);
  if (place ? has_image(*place) : !std::filesystem::is_directory(path)) return {path};
  const FolderContents contents = list_images(path);
  if (contents.images.empty()) throw DataError(path, "contains no image files");
  if (note != nullptr) *note = describe_folder_links(path, contents);
  std::vector<std::string> files;
  for (const ListedFile& file : contents.images) {
    files.push_back(place ? (Path(file.path) / file.name).string() : file.path);
  }
  return files;
}

bool is_image_list(const std::string& path) {
  const std::string ending = to_lower(Path(path).extension().string());
  return (ending == ".csv" || ending == ".tsv") && is_file(path);
}

std::vector<std::string> list_image_files(const std::string& path, const config::Csv& csv) {
  return read_image_names(path, csv);
}

Images open_image_files(const config::Data& data, const std::vector<std::string>& files,
                        bool skip) {
  config::Data plain = data;
  plain.on_error = config::OnError::kFail;
  plain.cache = config::ImageCache::kNone;
  ImageList list;
  list.source = files.front();
  for (const std::string& file : files) list.files.push_back(find_image(file));
  auto dataset = make_image_dataset(plain, std::move(list), {""}, 0, false).dataset;
  if (!skip) return {std::move(dataset), false};
  return make_tolerant(std::move(dataset));
}

Images open_given_images(const config::Data& data, std::vector<GivenImage> images) {
  return make_tolerant(std::make_unique<GivenImages>(data, std::move(images)));
}

Images open_images(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw DataError(path,
                    "no such file; expected image files, folders of them, or images as IDX, NPY or "
                    "NPZ");
  }
  if (is_zip(path)) return open_archive(path);
  const Bytes start = read_file_start(path, 6);
  const bool npy = start.size() == 6 && std::memcmp(start.data(), "\x93NUMPY", 6) == 0;
  return unlabelled(npy || path.ends_with(".npy.gz") ? read_npy(path) : read_idx(path));
}

}  // namespace trainer::data
