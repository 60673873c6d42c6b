// Data sets, the order of samples, and the loader that keeps batches ready.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/partition.h"
#include "base/types.h"
#include "config/config.h"

namespace trainer::data {

// Stands for an epoch where a sample is wanted without random changes.
inline constexpr std::int64_t kNoEpoch = -1;

// Files of a list that could not be read, so far, or that have no class.
struct Damage {
  std::int64_t skipped = 0, replaced = 0, files = 0;  // files: in the list
  std::vector<std::string> reasons = {};              // of those skipped; each begins with the file
  std::string without_class = {};  // a line on image files that lie in no folder of a class
};

// A set of samples that can be read in any order, from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual Shape image_shape() const = 0;         // [height, width, channels]
  virtual DType image_type() const = 0;          // kUInt8 or kFloat32; of features also kBFloat16
  virtual bool label_is_index() const = 0;       // int32 class, else float32 targets
  virtual std::int64_t label_width() const = 0;  // 1 for indices, else numbers a sample
  // Copies sample `index` to `image` (image_shape().elements() of image_type()) and its label to
  // `label` (int32 or label_width() floats). Throws DataError naming the file and the sample.
  // Where is_random(), the image is a function of the seed, the epoch and the index.
  virtual void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const = 0;
  void get(std::int64_t index, void* image, void* label) const {
    get(index, kNoEpoch, image, label);
  }
  // Whether the image of a sample differs from epoch to epoch.
  virtual bool is_random() const { return false; }
  // What a user knows the sample by: its file, or its number.
  virtual std::string describe(std::int64_t index) const { return std::to_string(index); }
  // The class of a sample, told without reading its image; -1 where that is not possible.
  virtual std::int32_t label_of(std::int64_t index) const {
    static_cast<void>(index);
    return -1;
  }
  // Zeros where damaged files are errors.
  virtual Damage damage() const { return {}; }
  // Where others would be taken in place of damaged samples: why each of these cannot be read, ""
  // when it can. get() of one of them throws from now on. Otherwise empty. Decodes every file once.
  virtual std::vector<std::string> unreadable(const std::vector<std::int64_t>& indices) {
    static_cast<void>(indices);
    return {};
  }
  // Files that were left out or replaced so far, and why, one line each.
  virtual std::vector<std::string> report() const { return {}; }
  // Divides the samples into parts, a number each, -1 for those that will not be read: what is
  // taken in place of a damaged sample is of its own part. Before the first get().
  virtual void divide(std::vector<std::int32_t> parts) { static_cast<void>(parts); }
  // Whether get() is hardly more than a copy of memory: reading ahead in threads then does not pay.
  virtual bool in_memory() const { return false; }
  // What tells one data set's content from another's, cheaply: for resume checks.
  virtual std::string fingerprint() const = 0;
  // The same, for what is kept of the images from run to run: also tells changed files apart.
  virtual std::string content_key() const { return fingerprint(); }
};

// The splits of a config. Absent ones are null.
struct Datasets {
  std::unique_ptr<Dataset> train, validation, test;
  std::vector<std::string> classes;  // in label order
  Shape image_shape;
  DType image_type = DType::kUInt8;
  bool label_is_index = true;
  std::int64_t num_classes = 0;
};
// Opens what the config names; `only` (train, validation, test) opens just that split. Checks that
// counts of images and labels agree and that labels lie in [0, classes).
Datasets open_datasets(const config::Data& data, std::uint64_t seed,
                       std::optional<std::string> only = {});

// The split of an image format with this name; where data.path alone is given, its sub-folder of
// that name (validation also as val). An empty path and glob when there is none.
config::Split image_split(const config::Data& data, const std::string& name);

// The images of one IDX, NPY or NPZ file, told apart by their content. Only an NPZ file may have
// labels beside them; otherwise all labels are 0.
struct Images {
  std::unique_ptr<Dataset> dataset;
  bool labelled = false;
  // Why sample `index`, which was read, is not an image but zeros; "" when it is one. Absent where
  // that cannot be.
  std::function<std::string(std::int64_t index)> damage = {};
};
Images open_images(const std::string& path);

// Whether a file holds arrays, to be opened by open_images, and not one image: by its first bytes.
bool is_array_file(const std::string& path);
// The image files that a path stands for: itself, or those below a folder, hidden ones left out,
// sorted. Throws DataError when there are none.
std::vector<std::string> image_files(const std::string& path);
// These files, decoded and resized as an evaluation split of `data` (resize and channels given)
// does; all labels are 0. They are read when they are asked for. `skip`: a damaged file gives zeros
// and a reason in place of a DataError.
Images open_image_files(const config::Data& data, std::vector<std::string> files, bool skip);

// Writes the embedded ten-class digit set as the four MNIST-named IDX files below `folder`, unless
// they are there already. Deterministic.
void generate_digits(const std::string& folder, std::int64_t train_samples = 20000,
                     std::int64_t test_samples = 4000);

// The sample that stands at `position` of `epoch`: a permutation of [0, size) that depends on
// nothing but (seed, epoch), or the identity without shuffle. position < size.
class Sampler {
 public:
  Sampler(std::int64_t size, std::uint64_t seed, bool shuffle);
  std::int64_t size() const { return size_; }
  std::int64_t index(std::int64_t epoch, std::int64_t position) const;
  // The samples at positions first, first + 1, ...; cheaper than one by one.
  void indices(std::int64_t epoch, std::int64_t first, std::span<std::int64_t> out) const;

 private:
  std::int64_t size_;
  std::uint64_t seed_;
  bool shuffle_;
};

// Which samples make up batch `step`: step / batches_per_epoch is the epoch; the last batch of an
// epoch is short when the size does not divide.
struct BatchRange {
  std::int64_t epoch = 0;
  std::int64_t first = 0;  // position in the epoch
  std::int64_t count = 0;
};

// A batch in memory that the loader owns: this rank's part of the global one. Valid until
// release().
struct Batch {
  BatchRange range;                   // of the part, of its first way through the samples
  std::int64_t offset = 0;            // of its first sample in the global batch
  std::int64_t global = 0;            // samples of the global batch
  const void* images = nullptr;       // count samples, packed
  const void* labels = nullptr;       // count labels
  std::vector<std::int64_t> indices;  // which samples
};

struct LoaderOptions {
  std::int64_t batch_size = 1;  // of the global batch
  std::int64_t rank = 0;        // this loader reads partition(batch, ranks, rank); it may be empty
  std::int64_t ranks = 1;
  // Ways through all samples, side by side, each in an order and with random changes of its own: a
  // batch is batch_size / passes samples of each, one after the other, and an epoch one way each.
  // 1, or a multiple of ranks, which then have the same number of whole ways.
  std::int64_t passes = 1;
  std::uint64_t seed = 0;
  bool shuffle = false;
  bool augment = true;                   // whether random data sets get the epoch
  std::int64_t first_step = 0;           // batches before it are skipped without being read
  std::optional<std::int64_t> end_step;  // none: forever; otherwise next() gives null there
  std::optional<std::int64_t> prefetch;  // batches ready ahead
  std::optional<std::int64_t> threads;
};

// Reads batches ahead with its own threads. The content of batch k depends on (seed, k) only.
class Loader {
 public:
  virtual ~Loader() = default;
  // The next batch, or null after end_step. The batch before must have been released. Rethrows what
  // a reading thread threw, when its batch is due.
  virtual const Batch* next() = 0;
  virtual void release() = 0;
  virtual double seconds_waited() const = 0;  // total time next() had to wait
  virtual std::string describe() const = 0;   // "2 threads, 4 batches ahead"
};
std::unique_ptr<Loader> make_loader(const Dataset& dataset, const LoaderOptions& options);

std::int64_t batches_per_epoch(std::int64_t samples, std::int64_t batch_size);
BatchRange batch_range(std::int64_t samples, std::int64_t batch_size, std::int64_t step);

}  // namespace trainer::data
