#include "data/images/image_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "data/images/augment/augment.h"
#include "data/images/image_reader.h"
#include "data/images/pixel_cache.h"
#include "data/images/readable_files.h"
#include "data/images/scaled_decode.h"
#include "data/samples/stage_times.h"

namespace trainer::data {
namespace {

std::uint32_t checksum(const std::string& text, std::uint32_t crc) {
  return crc32c({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, crc);
}

// Returns a word per label, "1 ", "0 " or "nan " for an unknown one. `zeros` is the text of a set
// without labels. Checkpoints store a checksum of this text.
std::string spell_row(const LabelSet& set, const std::string& zeros) {
  std::string text;
  std::size_t copied = 0;  // bytes of `zeros`
  const auto add = [&](std::int32_t label, const char* word) {
    const std::size_t begin = 2 * static_cast<std::size_t>(label);
    text.append(zeros, copied, begin - copied);
    text += word;
    copied = begin + 2;
  };
  auto unknown = set.unknown.begin();
  for (const std::int32_t label : set.present) {
    for (; unknown != set.unknown.end() && *unknown < label; ++unknown) add(*unknown, "nan ");
    add(label, "1 ");
  }
  for (; unknown != set.unknown.end(); ++unknown) add(*unknown, "nan ");
  return text.append(zeros, copied);
}

// Returns the place of an image in a file of many images; "" for a file of its own.
std::string describe_place(const ListedFile& entry) {
  if (entry.bytes < 0) return "";
  return concat(entry.offset, '+', entry.bytes, ' ',
                entry.zip ? concat(entry.zip->crc, ' ') : std::string());
}

// Change this text when the decoders give other pixels than before.
constexpr const char* kDecoders = "decoders 3";

// Identifies the content of the files, the settings and the decoders.
std::string cache_key(const ImageList& list, const ImageReader& reader) {
  std::uint32_t crc = checksum(kDecoders, 0);
  for (const ListedFile& entry : list.files) {
    std::error_code error;
    crc = checksum(
        concat(std::filesystem::absolute(entry.path).string(), ' ', describe_place(entry),
               std::filesystem::file_size(entry.path, error), ' ',
               std::filesystem::last_write_time(entry.path, error).time_since_epoch().count()),
        crc);
  }
  return concat(to_hex(crc), '-', to_hex(checksum(reader.recipe(), crc)));
}

struct ImageSource {
  std::shared_ptr<const ImageList> list;
  ImageReader reader;
  Augmentations augment;  // without mixing
  Denormalizer denormalizer;
  config::OnError on_error;
  std::uint64_t seed;

  bool crops() const {
    return !augment.empty() &&
           std::holds_alternative<config::RandomResizedCrop>(augment.front().kind);
  }
};

class ImageDataset final : public Dataset {
 public:
  ImageDataset(ImageSource source, std::unique_ptr<PixelCache> cache,
               std::shared_ptr<DamagedFiles> damaged, std::shared_ptr<const DamageScan> scan)
      : source_(std::move(source)),
        reader_(source_.reader),
        crops_(source_.crops()),
        cache_(std::move(cache)),
        damaged_(std::move(damaged)),
        scan_(std::move(scan)) {
    spec_.image_shape = {reader_.height(), reader_.width(), reader_.channels()};
    spec_.is_random = !source_.augment.empty();
    spec_.has_weights = source_.list->has_weights;
    if (!source_.list->label_sets) return;
    spec_.label_kind = LabelKind::kMultiLabel;
    spec_.label_width = static_cast<std::int64_t>(source_.list->label_sets->labels());
  }

  std::int64_t size() const override { return std::ssize(source_.list->files); }
  const DatasetSpec& spec() const override { return spec_; }
  std::int32_t label_at(std::int64_t index) const override {
    return spec_.is_multi_label() ? -1 : file(index).label;
  }
  LabelSet label_set_at(std::int64_t index) const override {
    if (!spec_.is_multi_label()) return {};
    return source_.list->label_sets->at(file(index).label);
  }
  float weight_at(std::int64_t index) const override { return file(index).weight; }
  std::string group_at(std::int64_t index) const override { return file(index).group; }
  std::string describe(std::int64_t index) const override { return file(index).describe(); }

  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
    write_label(index, label);
    auto* out = static_cast<std::uint8_t*>(image);
    try {
      read(index, epoch, out);
    } catch (const DataError& error) {
      if (!damaged_->replaces(index)) {
        scan_->forget();
        throw;
      }
      damaged_->replace(index, file(index).describe(), error.what(),
                        [&](std::int64_t other) { read(other, epoch, out); });
    }
  }

  // Identifies the names, sizes and labels of the files, and the settings that decide the pixels.
  std::string fingerprint() const override {
    std::uint32_t crc = 0;
    for (const ListedFile& entry : source_.list->files) {
      std::error_code error;
      const auto bytes = std::filesystem::file_size(entry.path, error);
      crc = checksum(concat(std::filesystem::path(entry.path).filename().string(), ' ',
                            error ? 0 : bytes, ' ', describe_place(entry), entry.label, '\n'),
                     crc);
    }
    if (spec_.is_multi_label()) crc = checksum_sets(*source_.list->label_sets, crc);
    crc = checksum(reader_.recipe(), crc);
    return concat(size(), " image files, ", to_string(spec_.image_shape), " crc32c ", to_hex(crc));
  }
  std::string content_key() const override {
    // The seed chooses the samples that stand in for damaged ones, and nothing else of the pixels.
    const bool is_drawn = source_.on_error == config::OnError::kReplace;
    return concat(fingerprint(), ' ', cache_key(*source_.list, reader_), " on_error ",
                  static_cast<int>(source_.on_error),
                  is_drawn ? concat(" seed ", source_.seed) : std::string());
  }

 private:
  static std::uint32_t checksum_sets(const LabelSets& sets, std::uint32_t crc) {
    std::string zeros;
    for (std::size_t label = 0; label < sets.labels(); ++label) zeros += "0 ";
    for (std::int32_t set = 0; set < sets.size(); ++set) {
      crc = checksum(spell_row(sets.at(set), zeros), crc);
    }
    return crc;
  }
  void write_label(std::int64_t index, void* label) const {
    if (spec_.is_multi_label()) {
      source_.list->label_sets->write_row(
          file(index).label, {static_cast<float*>(label), source_.list->label_sets->labels()});
    } else {
      std::memcpy(label, &file(index).label, sizeof(std::int32_t));
    }
  }
  const ListedFile& file(std::int64_t index) const { return source_.list->files[index]; }
  // Returns memory of this thread that is reused for each image.
  static Pixels& scratch() {
    thread_local Pixels scratch;
    return scratch;
  }

  void read(std::int64_t index, std::int64_t epoch, std::uint8_t* out) const {
    const bool random = epoch != kNoEpoch && spec_.is_random;
    Random draws(source_.seed, Stream::kAugment, static_cast<std::uint64_t>(epoch),
                 static_cast<std::uint64_t>(index));
    if (random && crops_) {
      read_crop(index, draws, out);
    } else {
      read_fitted(index, out);
    }
    if (!random) return;
    const StageTimer timer(ReadStage::kAugment);
    Pixels& image = copy_to_scratch(out);
    augment(source_.augment, source_.denormalizer, draws, image);
    std::memcpy(out, image.data(), image.size());
  }

  void read_fitted(std::int64_t index, std::uint8_t* out) const {
    const bool cached = cache_ && !crops_;  // with crops, the cache holds whole images
    if (cached && cache_->load(index, scratch())) {
      std::memcpy(out, scratch().data(), reader_.image_bytes());
      return;
    }
    const auto decoded =
        record_warning(index, reader_.decode(file(index).stored(), ImageReader::Scale::kReduced));
    reader_.resize(decoded.pixels, decoded.geometry, out);
    if (cached) cache_->store(index, copy_to_scratch(out));
  }

  // The crop is drawn after reading the header, so that a JPEG need not be decoded at full size.
  void read_crop(std::int64_t index, Random& draws, std::uint8_t* out) const {
    const auto crop = [&](int height, int width) {
      return *random_crop_geometry(source_.augment, draws, height, width, reader_.height(),
                                   reader_.width());
    };
    if (!cache_) {
      const auto decoded = record_warning(
          index, reader_.decode(file(index).stored(), crop, ImageReader::Scale::kReduced));
      reader_.resize(decoded.pixels, decoded.geometry, out);
      return;
    }
    Pixels& whole = scratch();
    if (cache_->load(index, whole)) {
      reader_.resize(whole, crop(whole.height(), whole.width()), out);
      return;
    }
    const auto decoded =
        record_warning(index, reader_.decode(file(index).stored(), ImageReader::Scale::kFull));
    cache_->store(index, decoded.pixels);
    reader_.resize(decoded.pixels, crop(decoded.pixels.height(), decoded.pixels.width()), out);
  }

  // Records the warning of a decoded image, if there is one, and returns the image.
  ImageReader::Decoded record_warning(std::int64_t index, ImageReader::Decoded decoded) const {
    if (!decoded.warning.empty()) damaged_->note_warning(index, decoded.warning);
    return decoded;
  }

  Pixels& copy_to_scratch(const std::uint8_t* image) const {
    Pixels& copy = scratch();
    copy.reset(reader_.height(), reader_.width(), reader_.channels());
    std::memcpy(copy.data(), image, reader_.image_bytes());
    return copy;
  }

  ImageSource source_;
  const ImageReader& reader_;
  DatasetSpec spec_;
  bool crops_;
  std::unique_ptr<PixelCache> cache_;
  std::shared_ptr<DamagedFiles> damaged_;
  std::shared_ptr<const DamageScan> scan_;
};

// The readable files of a list, and the reasons why the others are not readable.
struct Readable {
  ImageList list;
  std::vector<std::pair<std::string, std::int32_t>> damaged;  // reason and label
};

// Runs before the first batch, so that the set of samples, and thereby the order of all epochs,
// does not depend on the order of reading and is the same after a resume.
Readable select_readable(const ImageList& list, DamageScan& scan, const ErrorBudget& budget) {
  std::vector<std::int64_t> all(list.files.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::string> reasons = scan.find(all);
  Readable readable{list, {}};
  readable.list.files.clear();
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (reasons[i].empty()) {
      readable.list.files.push_back(list.files[i]);
    } else {
      readable.damaged.emplace_back(reasons[i], list.files[i].label);
    }
  }
  if (!readable.damaged.empty()) {
    budget.check(std::ssize(readable.damaged), readable.damaged.back().first);
  }
  return readable;
}

// Reports the files that select_readable() left out. Throws DataError for a class without a
// readable file. `classes`: the names of the values of ListedFile::label.
void report_damaged(const Readable& readable, const std::vector<std::string>& classes,
                    DamagedFiles& files) {
  if (readable.list.label_sets) {  // a set of labels often belongs to a single image
    for (const auto& [reason, label] : readable.damaged) {
      files.note_skipped(reason, classes[label]);
    }
    return;
  }
  std::vector<std::int64_t> left(classes.size()), lost(classes.size());
  for (const ListedFile& file : readable.list.files) ++left[file.label];
  for (const auto& [reason, label] : readable.damaged) {
    ++lost[label];
    files.note_skipped(reason, classes[label]);
  }
  for (std::size_t label = 0; label < classes.size(); ++label) {
    if (lost[label] == 0) continue;
    files.note(concat("class ", classes[label], ": ", lost[label], " of ",
                      lost[label] + left[label], " files skipped"));
    if (left[label] > 0) continue;
    throw DataError(readable.list.source, "no file of the class ", classes[label],
                    " can be read; the last error: ", readable.damaged.back().first);
  }
}

// Returns the name of each value of ListedFile::label: the classes, or the sets of labels.
std::vector<std::string> name_labels(const ImageList& list,
                                     const std::vector<std::string>& classes) {
  if (!list.label_sets) return classes;
  std::vector<std::string> names;
  for (std::int32_t set = 0; set < list.label_sets->size(); ++set) {
    names.push_back(list.label_sets->describe(set, classes));
  }
  return names;
}

ErrorBudget make_budget(const config::Data& data, const ImageList& list) {
  const double budget = data.error_budget;
  const auto files = static_cast<double>(list.files.size());
  return {list.source, static_cast<std::int64_t>(budget < 1 ? std::ceil(budget * files) : budget)};
}

std::unique_ptr<PixelCache> make_cache(const config::Data& data, const ImageList& list,
                                       const ImageReader& reader) {
  const auto count = std::ssize(list.files);
  switch (data.cache) {
    case config::ImageCache::kNone:
      return nullptr;
    case config::ImageCache::kMemory:
      return make_memory_cache(count);
    case config::ImageCache::kDisk:
      if (data.folders == config::FolderAccess::kReadOnly) return nullptr;
      return make_disk_cache(data.cache_dir, cache_key(list, reader), count, reader.image_bytes());
  }
  return nullptr;
}

}  // namespace

ImageSplit make_image_dataset(const config::Data& data, ImageList list,
                              const std::vector<std::string>& classes, std::uint64_t seed,
                              bool training, const Progress& progress) {
  const std::vector<std::string> names = name_labels(list, classes);
  ImageSource source{std::make_shared<ImageList>(std::move(list)), ImageReader(data), {},
                     Denormalizer(config::find_normalize(data)),   data.on_error,     seed};
  if (training) source.augment = data.train.augment;
  std::erase_if(source.augment, config::is_mixing);  // MixedDataset applies them
  if (source.on_error == config::OnError::kReplace && !training) {
    source.on_error = config::OnError::kSkip;
  }
  const auto scale = source.crops() ? ImageReader::Scale::kFull : ImageReader::Scale::kReduced;
  auto scan = std::make_shared<DamageScan>(source.list, source.reader, scale, data.cache_dir,
                                           data.folders, progress);
  const ErrorBudget budget = make_budget(data, *source.list);
  std::optional<Readable> readable;
  if (source.on_error == config::OnError::kSkip) {
    readable = select_readable(*source.list, *scan, budget);
    source.list = std::make_shared<ImageList>(readable->list);
  }

  DamagedFiles::Options options{budget,
                                names,
                                {},
                                seed,
                                source.on_error == config::OnError::kReplace,
                                source.list->notes,
                                source.list->left_aside};
  for (const ListedFile& file : source.list->files) options.labels.push_back(file.label);
  auto files = std::make_shared<DamagedFiles>(
      std::move(options),
      [scan](const std::vector<std::int64_t>& indices) { return scan->find(indices); });
  if (readable) report_damaged(*readable, names, *files);
  auto cache = make_cache(data, *source.list, source.reader);
  auto note = [list = source.list, data] { return scaled_decode_note(*list, data); };
  return {std::make_unique<ImageDataset>(std::move(source), std::move(cache), files, scan), files,
          std::move(note)};
}

}  // namespace trainer::data
