// Image files as a data set: read, decode, cut, resize, change at random.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "data/images/image.h"
#include "data/images/readable_files.h"
#include "data/images/resize_rows.h"
#include "data/splits.h"

namespace trainer::data {
namespace {

class ImageDataset final : public Dataset {
 public:
  ImageDataset(const config::Data& data, ImageList list, std::vector<std::string> classes,
               std::uint64_t seed, bool training)
      : config_(data),
        list_(std::move(list)),
        classes_(std::move(classes)),
        seed_(seed),
        limits_{data.max_pixels, data.max_file_size},
        height_(static_cast<int>(data.resize[0])),
        width_(static_cast<int>(data.resize[1])),
        channels_(static_cast<int>(data.channels.value_or(3))),
        report_(list_.notes) {
    if (training) augment_ = data.train.augment;
    // Only training takes other images in place of damaged ones.
    const bool replaces = config_.on_error == config::OnError::kReplace;
    if (replaces && !training) config_.on_error = config::OnError::kSkip;
    std::erase_if(augment_, config::is_mixing);  // which is done to this data set, not in it
    crops_ = !augment_.empty() &&
             std::holds_alternative<config::RandomResizedCrop>(augment_.front().kind);
    if (config_.on_error == config::OnError::kSkip) remove_damaged();
    if (config_.on_error == config::OnError::kReplace) {
      index_classes(std::vector<std::int32_t>(list_.files.size(), 0));
    }
    if (config_.cache == config::ImageCache::kMemory) cache_ = make_memory_cache(size());
    if (config_.cache == config::ImageCache::kDisk) {
      cache_ = make_disk_cache(config_.cache_dir, cache_key(), size(), image_bytes());
    }
  }

  std::int32_t label_of(std::int64_t index) const override { return file(index).label; }
  std::int64_t size() const override { return static_cast<std::int64_t>(list_.files.size()); }
  Shape image_shape() const override { return {height_, width_, channels_}; }
  DType image_type() const override { return DType::kUInt8; }
  bool label_is_index() const override { return true; }
  std::int64_t label_width() const override { return 1; }
  bool is_random() const override { return !augment_.empty(); }
  void divide(std::vector<std::int32_t> parts) override {
    if (config_.on_error == config::OnError::kReplace) index_classes(std::move(parts));
  }
  std::string describe(std::int64_t index) const override { return file(index).path; }

  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
    std::memcpy(label, &file(index).label, sizeof(std::int32_t));
    auto* out = static_cast<std::uint8_t*>(image);
    try {
      read(index, epoch, out);
    } catch (const DataError& error) {
      const bool replaced = config_.on_error == config::OnError::kReplace && !is_kept(index);
      if (!replaced && readable_) readable_->forget();
      if (!replaced) throw;
      note_replaced(index, error.what());
      replace(index, epoch, out);
    }
  }

  Damage damage() const override {
    const std::lock_guard lock(mutex_);
    return {static_cast<std::int64_t>(skipped_.size()), static_cast<std::int64_t>(damaged_.size()),
            size() + static_cast<std::int64_t>(skipped_.size()), skipped_, list_.without_class};
  }
  std::vector<std::string> unreadable(const std::vector<std::int64_t>& indices) override {
    if (config_.on_error != config::OnError::kReplace) return {};
    kept_.resize(list_.files.size());
    for (const std::int64_t index : indices) kept_[static_cast<std::size_t>(index)] = true;
    const std::vector<std::string> reasons = find_damaged(indices);
    check_budget(reasons);
    return reasons;
  }
  std::vector<std::string> report() const override {
    const std::lock_guard lock(mutex_);
    return report_;
  }

  // Names, sizes and labels of the files, and what is made of them.
  std::string fingerprint() const override {
    std::uint32_t crc = 0;
    const auto add = [&crc](const std::string& text) {
      crc = crc32c({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, crc);
    };
    const std::filesystem::path base = std::filesystem::path(list_.source);
    for (const ImageFile& entry : list_.files) {
      std::error_code error;
      const auto bytes = std::filesystem::file_size(entry.path, error);
      add(concat(std::filesystem::path(entry.path).filename().string(), ' ', error ? 0 : bytes, ' ',
                 entry.label, '\n'));
    }
    add(recipe());
    return concat(size(), " image files, ", to_string(image_shape()), " crc32c ", std::hex, crc);
  }
  std::string content_key() const override {
    return concat(fingerprint(), ' ', cache_key(), " seed ", seed_, " on_error ",
                  static_cast<int>(config_.on_error));
  }

 private:
  const ImageFile& file(std::int64_t index) const {
    return list_.files[static_cast<std::size_t>(index)];
  }
  std::size_t image_bytes() const { return static_cast<std::size_t>(height_ * width_ * channels_); }
  std::string recipe() const {
    return concat(height_, 'x', width_, 'x', channels_, ' ',
                  static_cast<int>(config_.interpolation), config_.antialias,
                  static_cast<int>(config_.fit), ' ', config_.crop_fraction, config_.scaled_decode);
  }
  std::string cache_key() const {
    std::uint32_t crc = 0;
    for (const ImageFile& entry : list_.files) {
      std::error_code error;
      const std::string text =
          concat(std::filesystem::absolute(entry.path).string(), ' ',
                 std::filesystem::file_size(entry.path, error), ' ',
                 std::filesystem::last_write_time(entry.path, error).time_since_epoch().count());
      crc = crc32c({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, crc);
    }
    const std::string how = recipe();
    const std::uint32_t more =
        crc32c({reinterpret_cast<const std::uint8_t*>(how.data()), how.size()}, crc);
    return concat(std::hex, crc, '-', more);
  }

  // Scratch of one thread, kept from image to image.
  struct Scratch {
    std::vector<std::uint8_t> file;
    Pixels decoded, sized;
  };
  static Scratch& scratch() {
    thread_local Scratch scratch;
    return scratch;
  }

  // Decodes into scratch().decoded and returns the geometry on it.
  Geometry decode_file(std::int64_t index, const Geometry* wanted, bool whole) const {
    Scratch& s = scratch();
    const std::string& path = file(index).path;
    read_image_file(path, limits_, s.file);
    const ImageInfo info = read_header(s.file, path, limits_);
    Geometry geometry = wanted != nullptr ? *wanted
                                          : fit_geometry(info.height, info.width, height_, width_,
                                                         config_.fit, config_.crop_fraction);
    const bool jpeg = info.kind == "JPEG";
    const int reduce = jpeg && config_.scaled_decode && !whole ? decode_reduction(geometry) : 1;
    decode(s.file, path, info, channels_, reduce, s.decoded);
    return reduced(geometry, reduce, s.decoded.height(), s.decoded.width());
  }

  void resize_to(const Geometry& geometry, std::uint8_t* out) const {
    Scratch& s = scratch();
    if (s.decoded.channels() == channels_) {
      resize(s.decoded, geometry.vertical, geometry.horizontal, config_.interpolation,
             config_.antialias, out);
      return;
    }
    // A grey file in a set of RGB images: resized as grey, then repeated.
    s.sized.reset(height_, width_, 1);
    resize(s.decoded, geometry.vertical, geometry.horizontal, config_.interpolation,
           config_.antialias, s.sized.data());
    resize_rows().repeat_grey(s.sized.data(), height_ * width_, out);
  }

  void read(std::int64_t index, std::int64_t epoch, std::uint8_t* out) const {
    const bool random = epoch != kNoEpoch && is_random();
    Random draws(seed_, Stream::kAugment, static_cast<std::uint64_t>(epoch),
                 static_cast<std::uint64_t>(index));
    if (random && crops_) {
      read_crop(index, draws, out);
    } else {
      read_whole(index, out);
    }
    if (!random) return;
    Scratch& s = scratch();
    s.sized.reset(height_, width_, channels_);
    std::memcpy(s.sized.data(), out, image_bytes());
    augment(augment_, draws, s.sized);
    std::memcpy(out, s.sized.data(), image_bytes());
  }

  void read_whole(std::int64_t index, std::uint8_t* out) const {
    Scratch& s = scratch();
    if (cache_ && !crops_ && cache_->load(index, s.sized)) {
      std::memcpy(out, s.sized.data(), image_bytes());
      return;
    }
    resize_to(decode_file(index, nullptr, false), out);
    if (!cache_ || crops_) return;
    s.sized.reset(height_, width_, channels_);
    std::memcpy(s.sized.data(), out, image_bytes());
    cache_->store(index, s.sized);
  }

  // The crop is chosen from the header, so that a JPEG need not be decoded in full.
  void read_crop(std::int64_t index, Random& draws, std::uint8_t* out) const {
    Scratch& s = scratch();
    const auto crop = [&](int height, int width) {
      return *random_crop_geometry(augment_, draws, height, width, height_, width_);
    };
    if (cache_) {
      if (!cache_->load(index, s.decoded)) {
        decode_file(index, nullptr, true);
        cache_->store(index, s.decoded);
      }
      resize_to(crop(s.decoded.height(), s.decoded.width()), out);
      return;
    }
    const std::string& path = file(index).path;
    read_image_file(path, limits_, s.file);
    const ImageInfo info = read_header(s.file, path, limits_);
    const Geometry geometry = crop(info.height, info.width);
    const int reduce =
        info.kind == "JPEG" && config_.scaled_decode ? decode_reduction(geometry) : 1;
    decode(s.file, path, info, channels_, reduce, s.decoded);
    resize_to(reduced(geometry, reduce, s.decoded.height(), s.decoded.width()), out);
  }

  // ---- Damaged files ----

  std::int64_t budget() const {
    const double budget = config_.error_budget;
    return static_cast<std::int64_t>(budget < 1 ? std::ceil(budget * static_cast<double>(size()))
                                                : budget);
  }
  void check_budget(std::int64_t count, const std::string& last) const {
    if (count <= budget()) return;
    throw DataError(list_.source, concat(count,
                                         " damaged files are more than data.error_budget "
                                         "allows (",
                                         budget(), "); the last: ", last));
  }
  std::string class_of(std::int64_t index) const {
    return classes_[static_cast<std::size_t>(file(index).label)];
  }

  void check_budget(const std::vector<std::string>& reasons) const {
    const auto damaged = [](const std::string& reason) { return !reason.empty(); };
    const auto last = std::find_if(reasons.rbegin(), reasons.rend(), damaged);
    if (last != reasons.rend()) {
      check_budget(std::count_if(reasons.begin(), reasons.end(), damaged), *last);
    }
  }

  // A sample that no other one may stand in for.
  bool is_kept(std::int64_t index) const {
    return !kept_.empty() && kept_[static_cast<std::size_t>(index)];
  }

  // Why each of these samples cannot be read, "" when it can. Every file is decoded once, unless an
  // earlier start has.
  std::vector<std::string> find_damaged(const std::vector<std::int64_t>& indices) {
    readable_ = std::make_unique<ReadableFiles>(
        config_.cache_dir, concat(list_.source, ' ', recipe(), ' ', channels_, ' ', crops_, ' ',
                                  limits_.max_pixels, ' ', limits_.max_file_size));
    std::vector<std::string> reasons(indices.size());
    parallel_for(indices.size(), [&](std::size_t i) {
      const auto state = readable_->state_of(file(indices[i]).path);
      if (state && readable_->contains(*state)) return;
      try {
        decode_file(indices[i], nullptr, crops_);
        if (state) readable_->add(*state);
      } catch (const DataError& error) {
        reasons[i] = error.what();
      }
    });
    readable_->save();
    return reasons;
  }

  // Before the first batch: the set of samples, and with it the order of all epochs, is then the
  // same whatever reads it, in whatever order, and after a resume.
  void remove_damaged() {
    std::vector<std::int64_t> all(list_.files.size());
    std::iota(all.begin(), all.end(), 0);
    const std::vector<std::string> reasons = find_damaged(all);
    check_budget(reasons);
    std::vector<ImageFile> good;
    std::vector<std::int64_t> left(classes_.size()), lost(classes_.size());
    for (std::size_t i = 0; i < reasons.size(); ++i) {
      const auto label = static_cast<std::size_t>(list_.files[i].label);
      if (reasons[i].empty()) {
        good.push_back(list_.files[i]);
        ++left[label];
        continue;
      }
      ++lost[label];
      skipped_.push_back(reasons[i]);
      report_.push_back(concat("skipped (class ", classes_[label], "): ", reasons[i]));
    }
    for (std::size_t label = 0; label < classes_.size(); ++label) {
      if (lost[label] == 0) continue;
      report_.push_back(concat("class ", classes_[label], ": ", lost[label], " of ",
                               lost[label] + left[label], " files skipped"));
      if (left[label] == 0) {
        throw DataError(list_.source, concat("no file of the class ", classes_[label],
                                             " can be read; the last: ", skipped_.back()));
      }
    }
    list_.files = std::move(good);
  }

  void index_classes(std::vector<std::int32_t> parts) {
    parts_ = std::move(parts);
    by_class_.clear();
    for (std::int64_t i = 0; i < size(); ++i) by_class_[group_of(i)].push_back(i);
  }
  // Samples that may stand in for each other: never one of validation in training.
  std::pair<std::int32_t, std::int32_t> group_of(std::int64_t index) const {
    return {parts_[static_cast<std::size_t>(index)], file(index).label};
  }

  // Another sample of the same class and part in its place, the choice being a function of the seed
  // and the sample alone; the first of the choices that can be read.
  void replace(std::int64_t index, std::int64_t epoch, std::uint8_t* out) const {
    const auto& others = by_class_.at(group_of(index));
    Random draws(seed_, Stream::kReplace, static_cast<std::uint64_t>(index));
    for (int attempt = 0; attempt < 100; ++attempt) {
      const std::int64_t other = others[draws.below(others.size())];
      if (other == index) continue;
      try {
        read(other, epoch, out);
        return;
      } catch (const DataError& error) {
        note_replaced(other, error.what());
      }
    }
    throw DataError(file(index).path,
                    "cannot be read, and no other file of the class " + class_of(index) + " can");
  }

  void note_replaced(std::int64_t index, const std::string& reason) const {
    const std::lock_guard lock(mutex_);
    if (!damaged_.insert(index).second) return;
    report_.push_back(concat("replaced (class ", class_of(index), "): ", reason));
    check_budget(static_cast<std::int64_t>(damaged_.size()), reason);
  }

  config::Data config_;
  ImageList list_;
  std::vector<std::string> classes_;
  std::uint64_t seed_;
  ImageLimits limits_;
  int height_, width_, channels_;
  Augmentations augment_;
  bool crops_ = false;
  std::vector<std::string> skipped_;         // why
  std::unique_ptr<ReadableFiles> readable_;  // once files were looked at
  std::vector<bool> kept_;                   // of the samples, once some are evaluated; for replace
  std::unique_ptr<PixelCache> cache_;
  std::vector<std::int32_t> parts_;  // of the samples; for replace
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int64_t>> by_class_;
  mutable std::mutex mutex_;
  mutable std::set<std::int64_t> damaged_;
  mutable std::vector<std::string> report_;
};

}  // namespace

std::unique_ptr<Dataset> make_image_dataset(const config::Data& data, ImageList list,
                                            std::vector<std::string> classes, std::uint64_t seed,
                                            bool training) {
  return std::make_unique<ImageDataset>(data, std::move(list), std::move(classes), seed, training);
}

}  // namespace trainer::data
