// The section data: files, how images are read and changed, how samples are normalized.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/split.h"
#include "config/sections/augmentation.h"
#include "config/spelling.h"

namespace trainer::config {

class FieldVisitor;

// Where a split's files are. idx: images and labels files, or a folder with the four MNIST names
// (.gz or not). npz: a file with arrays, npy: images and labels files. image_folder: a folder with
// one sub-folder a class, or a glob whose files' parent folders name the class. csv: a file.
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

// How the lines of a csv file name an image and its class.
struct Csv {
  std::string image_column, label_column;  // of the header; usual names are recognised when empty
  std::string separator;                   // one character, or "tab"; found when empty
  std::string root;           // folder from which paths count; that of the csv file when empty
  std::string ending;         // added to every path, such as .png
  std::string weight_column;  // of the header: what a sample's loss is multiplied by
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
enum class Fit { kStretch, kCrop };
enum class OnError { kFail, kSkip, kReplace };
// Which training samples an epoch has. kBalanced: as many of each class, so that a rare class's
// samples come several times and a frequent class's not all.
enum class Sampling { kUniform, kBalanced };
enum class ImageCache { kNone, kMemory, kDisk };
// What keras.applications calls `mode` of preprocess_input: tf is [-1, 1], caffe is BGR without the
// mean of ImageNet, torch is [0, 1] without mean and divided by deviation; scale is [0, 1].
enum class PreprocessPreset { kTf, kCaffe, kTorch, kScale, kNone };

// `synthetic` is random numbers in memory, for benchmarks. `digits` is the embedded, procedurally
// drawn 28x28 ten-class set: written once as IDX files below `path`, then read from there.
struct Synthetic {
  std::vector<std::int64_t> shape{28, 28, 1};  // height, width, channels
  std::int64_t classes = 10;
  std::int64_t train_samples = 4096;
  std::int64_t test_samples = 1024;
};

struct Normalize {
  double scale = 1.0 / 255.0;     // x * scale, then (x - mean) / std per channel
  std::vector<double> mean;       // one number, or one per channel; 0 when empty
  std::vector<double> std;        // likewise; 1 when empty
  bool reverse_channels = false;  // RGB becomes BGR before all that; mean and std count in BGR
};

// What the program may do in the folders that a config names. kReadOnly: no file is created,
// changed or removed there.
enum class FolderAccess { kReadWrite, kReadOnly };

struct Data {
  // Not a key: kReadOnly for a config that a file records; see parse_recorded_config().
  FolderAccess folders = FolderAccess::kReadWrite;
  DataFormat format = DataFormat::kIdx;
  std::string path;                         // the folder of all splits, where the format has one
  std::vector<std::string> classes;         // names in label order; "0", "1", ... when empty
  std::optional<std::int64_t> num_classes;  // known from the names or the labels when left out
  SplitFiles train;
  SplitFiles validation;               // optional
  SplitFiles test;                     // optional
  double validation_split = 0;         // fraction of train set aside, when validation is not given
  std::optional<std::int64_t> limit;   // use only the first N training samples
  std::optional<Normalize> normalize;  // at most one of the two; Normalize{} when neither
  std::optional<PreprocessPreset> preprocess;
  Synthetic synthetic;
  Csv csv;
  // Formats of image files only, down to max_file_size.
  std::vector<std::int64_t> resize;      // [height, width]; model.input's when left out
  std::optional<std::int64_t> channels;  // 1 or 3; model.input's, or 3
  Interpolation interpolation = Interpolation::kBilinear;
  bool antialias = true;
  Fit fit = Fit::kStretch;
  double crop_fraction = 1;   // fit: crop keeps this share of the shorter side
  bool scaled_decode = true;  // JPEG at 1/2, 1/4, 1/8 where that is still large enough
                              // (off where antialias is given and this is not)
  OnError on_error = OnError::kFail;
  double error_budget = 0.01;  // files; a share of them when below 1
  ImageCache cache = ImageCache::kNone;
  std::string cache_dir = "cache";  // of cache: disk
  std::int64_t max_pixels = 100'000'000;
  std::int64_t max_file_size = 256 << 20;  // bytes
  bool shuffle = true;
  Sampling sampling = Sampling::kUniform;
  std::int64_t repeats = 1;              // of a sample in an epoch, with other random changes each
  std::optional<std::int64_t> prefetch;  // batches ready ahead; chosen when left out
  std::optional<std::int64_t> threads;   // loader threads; chosen when left out
  SourceLoc loc;

  const SplitFiles& files(Split split) const {
    return split == Split::kTrain ? train : split == Split::kValidation ? validation : test;
  }
};

// The numbers of data.normalize or data.preprocess.
Normalize find_normalize(const Data& data);
bool is_image_format(DataFormat format);
// Whether the training split has mixed samples, and with them shares of classes for labels.
bool mixes_samples(const Data& data);

template <>
const Spellings<DataFormat>& spellings<DataFormat>();
template <>
const Spellings<PreprocessPreset>& spellings<PreprocessPreset>();
template <>
const Spellings<Interpolation>& spellings<Interpolation>();
template <>
const Spellings<Fit>& spellings<Fit>();
template <>
const Spellings<OnError>& spellings<OnError>();
template <>
const Spellings<Sampling>& spellings<Sampling>();
template <>
const Spellings<ImageCache>& spellings<ImageCache>();
void fields(FieldVisitor& v, Data& s);

}  // namespace trainer::config
