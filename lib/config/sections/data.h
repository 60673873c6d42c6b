// The section data: files, how images are read and changed, how samples are normalized.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/spelling.h"
#include "base/split.h"
#include "config/sections/augmentation.h"

namespace trainer::config {

class FieldVisitor;

// The files of a split. idx: images and labels files, or a folder with the four MNIST names (.gz or
// not). npz: a file with arrays, npy: images and labels files. image_folder: a folder with one
// sub-folder per class, or a glob whose files' parent folders name the class. csv: a file.
struct SplitFiles {
  std::string path;    // a folder (idx, image_folder), an .npz or .csv file
  std::string images;  // idx or npy file, or the array's name in the .npz
  std::string labels;
  std::string glob;  // image_folder: e.g. train/**/*.jpeg, below path when that is given
  std::vector<Augmentation> augment;  // train only
  SourceLoc loc;

  // Returns whether any of the places is given.
  bool given() const {
    return !path.empty() || !images.empty() || !labels.empty() || !glob.empty();
  }
};

// What a cell of -1 in a column of labels counts as: a label that is unknown, absent or present.
enum class Uncertain { kIgnore, kAbsent, kPresent };

// How the lines of a csv file name an image and its class.
struct Csv {
  std::string image_column, label_column;  // header names; usual names are recognised when empty
  std::string separator;                   // one character, or "tab"; found when empty
  std::string root;             // the folder of relative paths; that of the csv file when empty
  std::string ending;           // appended to every path, such as .png
  std::string weight_column;    // the name in the header of the factor of a sample's loss
  std::string label_separator;  // one character between the labels of a cell; one label when empty
  std::optional<Uncertain> uncertain = {};  // cells of -1 are errors when left out
};

enum class DataFormat {
  kIdx,
  kNpz,
  kSynthetic,
  kDigits,
  kImageFolder,
  kCsv,
  kCifar,
  kTfRecord,
  kWebDataset
};
enum class Interpolation { kBilinear, kBicubic };
enum class Fit { kStretch, kCrop, kPad };
enum class OnError { kFail, kSkip, kReplace };
// The order of classes whose names come from folders or labels. kText: that of their bytes, as in
// Keras and torchvision. kNumber: by value, for names that are numbers.
enum class ClassOrder { kText, kNumber };
// The training samples that data.validation_split takes. kStratified: drawn by the seed, the same
// share of every class. kLast: the last ones in the order of the files or arrays, as fit() of
// Keras. kShuffled: the last ones after a shuffle, as image_dataset_from_directory() of Keras.
enum class ValidationSplitOrder { kStratified, kLast, kShuffled };
// What happens to the files of a photo (equal bytes) that a split has in several classes. kDrop:
// all of them are left out. kFirst: those of the first class are kept, in the order of the list.
enum class OnConflict { kKeep, kDrop, kFirst };
// The training samples of an epoch. kBalanced: equally many of each class, so that samples of rare
// classes are repeated and samples of frequent classes are left out.
enum class Sampling { kUniform, kBalanced };
enum class ImageCache { kNone, kMemory, kDisk };
// The `mode` of preprocess_input() in keras.applications: tf scales to [-1, 1], caffe subtracts
// ImageNet's mean in BGR, torch scales to [0, 1], subtracts the mean and divides by the standard
// deviation. kScale scales to [0, 1].
enum class PreprocessPreset { kTf, kCaffe, kTorch, kScale, kNone };

// `synthetic` has random numbers in memory, for benchmarks. `digits` is the built-in set of drawn
// 28x28 digits in ten classes, which is written to IDX files below `path` once and read from there.
struct Synthetic {
  std::vector<std::int64_t> shape{28, 28, 1};  // height, width, channels
  std::int64_t classes = 10;
  std::int64_t train_samples = 4096;
  std::int64_t test_samples = 1024;
};

// The values of 16-bit files that become 0 and 255. `auto` is resolved when the data is opened.
struct ValueRange {
  bool is_automatic = false;
  std::int64_t low = 0, high = 65535;
  bool operator==(const ValueRange&) const = default;
};

struct Normalize {
  double scale = 1.0 / 255.0;     // x * scale, then (x - mean) / std per channel
  std::vector<double> mean;       // one number, or one per channel; 0 when empty
  std::vector<double> std;        // one number, or one per channel; 1 when empty
  bool reverse_channels = false;  // RGB becomes BGR first; mean and std are in the order BGR

  // `channel` counts from 0. The last number of a list is also that of all later channels.
  double find_mean(std::size_t channel) const;
  double find_std(std::size_t channel) const;
  // Returns the length of the longer list, at least 1.
  std::size_t listed_channels() const;
};

// The most channels that images may have.
inline constexpr std::int64_t kMaxBands = 64;

// The program's access to the folders that a config names. kReadOnly: it creates, changes and
// removes no file there.
enum class FolderAccess { kReadWrite, kReadOnly };

struct Data {
  // Not a key: kReadOnly for a config that a file records; see parse_recorded_config().
  FolderAccess folders = FolderAccess::kReadWrite;
  // Not a key: true with model.loss: binary_cross_entropy, for which each of several columns of 0
  // and 1, of a list or of an array of labels, is a label of its own; otherwise one of them is the
  // class.
  bool columns_are_labels = false;
  // Not a key: model.input, which states that arrays have this shape; empty when left out.
  std::vector<std::int64_t> stated_shape;
  // Not a key: by key ("data.path"), the other places where relative paths of the config were
  // looked for in vain (config/paths.h), each with its relation: "a/b beside the config".
  std::map<std::string, std::string> missing_beside_file;
  DataFormat format = DataFormat::kIdx;
  std::string path;                         // the folder of all splits, where the format has one
  std::vector<std::string> classes;         // names in label order; "0", "1", ... when empty
  std::optional<std::int64_t> num_classes;  // counted in the names or labels when left out
  // The order of names that are found in the data; when left out, kText, or kNumber for labels.
  std::optional<ClassOrder> class_order;
  SplitFiles train;
  SplitFiles validation;        // optional
  SplitFiles test;              // optional
  double validation_split = 0;  // fraction of train, used if validation is not given
  ValidationSplitOrder validation_split_order = ValidationSplitOrder::kStratified;
  std::optional<std::int64_t> folds;   // parts of the training samples for cross-validation
  std::optional<std::int64_t> fold;    // counted from 1; validates in place of any other split
  std::string group_by;                // a pattern on paths or a csv's column; "": no groups
  std::string relabel;                 // a csv file with corrected labels; "": none
  std::optional<std::int64_t> limit;   // use only the first N training samples
  std::optional<Normalize> normalize;  // excludes preprocess; Normalize{} if both are left out
  std::optional<PreprocessPreset> preprocess;
  Synthetic synthetic;
  Csv csv;
  // Formats of image files only, down to max_file_size.
  std::vector<std::int64_t> resize;      // [height, width]; model.input's when left out
  std::optional<std::int64_t> channels;  // 1, 3, with alpha 2 or 4, or TIFF bands; or the input's
  std::optional<ValueRange> range;  // range of 16-bit files; when empty, their upper bytes are used
  Interpolation interpolation = Interpolation::kBilinear;
  bool antialias = true;
  Fit fit = Fit::kStretch;
  double crop_fraction = 1;  // fit: crop keeps this share of the shorter side
  // Decodes JPEG at 1/2, 1/4 or 1/8 if that is large enough. False if only antialias is given.
  bool scaled_decode = true;
  OnError on_error = OnError::kFail;
  double error_budget = 0.01;  // a number of files, or below 1 a share of them
  OnConflict on_conflict = OnConflict::kKeep;
  ImageCache cache = ImageCache::kNone;
  std::string cache_dir = "cache";  // used by kDisk
  std::int64_t max_pixels = 100'000'000;
  std::int64_t max_file_size = 256 << 20;  // bytes
  bool shuffle = true;
  Sampling sampling = Sampling::kUniform;
  std::int64_t repeats = 1;     // uses of a sample per epoch, each with its own augmentation
  bool drop_remainder = false;  // an epoch ends with its last whole batch
  std::optional<std::int64_t> prefetch;  // batches prepared ahead; chosen when left out
  std::optional<std::int64_t> threads;   // loader threads; chosen when left out
  SourceLoc loc;

  bool may_have_several_labels() const {
    return columns_are_labels || !csv.label_separator.empty();
  }
  const SplitFiles& files(Split split) const {
    return split == Split::kTrain ? train : split == Split::kValidation ? validation : test;
  }
};

// Returns the numbers of data.normalize or data.preprocess.
Normalize find_normalize(const Data& data);
bool is_image_format(DataFormat format);
// Returns whether the files hold arrays, whose labels may be numbers of any kind.
bool holds_arrays(DataFormat format);
// Returns whether the validation split is a part of the training samples: a fold, or the share
// data.validation_split.
bool divides_training_samples(const Data& data);
// Returns data.validation_split_order; kStratified for a fold, which takes its place.
ValidationSplitOrder find_division_order(const Data& data);
// Returns whether training samples are mixed, so that their labels are shares of classes.
bool mixes_samples(const Data& data);

constexpr auto spellings(DataFormat) {
  using enum DataFormat;
  return std::to_array<Spelling<DataFormat>>({{kIdx, "idx"},
                                              {kNpz, "npz"},
                                              {kSynthetic, "synthetic"},
                                              {kDigits, "digits"},
                                              {kImageFolder, "image_folder"},
                                              {kCsv, "csv"},
                                              {kCifar, "cifar"},
                                              {kTfRecord, "tfrecord"},
                                              {kWebDataset, "webdataset"}});
}
constexpr auto spellings(PreprocessPreset) {
  using enum PreprocessPreset;
  return std::to_array<Spelling<PreprocessPreset>>(
      {{kTf, "tf"}, {kCaffe, "caffe"}, {kTorch, "torch"}, {kScale, "scale"}, {kNone, "none"}});
}
constexpr auto spellings(Interpolation) {
  using enum Interpolation;
  return std::to_array<Spelling<Interpolation>>({{kBilinear, "bilinear"}, {kBicubic, "bicubic"}});
}
constexpr auto spellings(Fit) {
  using enum Fit;
  return std::to_array<Spelling<Fit>>({{kStretch, "stretch"}, {kCrop, "crop"}, {kPad, "pad"}});
}
constexpr auto spellings(OnError) {
  using enum OnError;
  return std::to_array<Spelling<OnError>>(
      {{kFail, "fail"}, {kSkip, "skip"}, {kReplace, "replace"}});
}
constexpr auto spellings(ClassOrder) {
  using enum ClassOrder;
  return std::to_array<Spelling<ClassOrder>>({{kText, "text"}, {kNumber, "number"}});
}
constexpr auto spellings(ValidationSplitOrder) {
  using enum ValidationSplitOrder;
  return std::to_array<Spelling<ValidationSplitOrder>>(
      {{kStratified, "stratified"}, {kLast, "last"}, {kShuffled, "shuffled"}});
}
constexpr auto spellings(OnConflict) {
  using enum OnConflict;
  return std::to_array<Spelling<OnConflict>>({{kKeep, "keep"}, {kDrop, "drop"}, {kFirst, "first"}});
}
constexpr auto spellings(Uncertain) {
  using enum Uncertain;
  return std::to_array<Spelling<Uncertain>>({{kIgnore, "ignore"}, {kAbsent, "0"}, {kPresent, "1"}});
}
constexpr auto spellings(Sampling) {
  using enum Sampling;
  return std::to_array<Spelling<Sampling>>({{kUniform, "uniform"}, {kBalanced, "balanced"}});
}
constexpr auto spellings(ImageCache) {
  using enum ImageCache;
  return std::to_array<Spelling<ImageCache>>(
      {{kNone, "none"}, {kMemory, "memory"}, {kDisk, "disk"}});
}
void fields(FieldVisitor& v, Data& s);

}  // namespace trainer::config
