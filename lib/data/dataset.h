// The interface of all data sets: samples of one shape, readable in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/types.h"

namespace trainer::data {

// In place of an epoch: the sample without random changes.
inline constexpr std::int64_t kNoEpoch = -1;

enum class LabelKind {
  kIndex,    // an int32 class, counted from 0
  kTargets,  // float32 numbers
};

// Shape and type of the samples of a data set.
struct DatasetSpec {
  Shape image_shape;                 // [height, width, channels]
  DType image_type = DType::kUInt8;  // kUInt8 or kFloat32; of features also kBFloat16
  LabelKind label_kind = LabelKind::kIndex;
  std::int64_t label_width = 1;  // numbers a label; 1 for indices
  bool is_random = false;        // whether the image of a sample differs from epoch to epoch
  bool in_memory = false;        // get() is a copy of memory: reading ahead does not pay
  bool has_weights = false;      // whether weight_of() differs from 1; rows of labels end with it

  bool label_is_index() const { return label_kind == LabelKind::kIndex; }
  std::size_t image_bytes() const;
  std::size_t label_bytes() const;
};
// Whether images and labels of both have the same shape and type, so that one model takes both.
bool same_samples(const DatasetSpec& a, const DatasetSpec& b);

// A set of samples. const functions are thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual const DatasetSpec& spec() const = 0;
  // Copies sample `index` to `image` (spec().image_bytes()) and its label to `label`
  // (spec().label_bytes()). Throws DataError naming the file and the sample. Where
  // spec().is_random, the image is a function of the seed, the epoch and the index.
  virtual void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const = 0;
  void get(std::int64_t index, void* image, void* label) const {
    get(index, kNoEpoch, image, label);
  }
  // The name of a sample in messages: its file, or its number.
  virtual std::string describe(std::int64_t index) const { return std::to_string(index); }
  // The class of a sample without reading its image; -1 when it is not known without.
  virtual std::int32_t label_of(std::int64_t index) const {
    static_cast<void>(index);
    return -1;
  }
  // What the loss of a sample is multiplied by.
  virtual float weight_of(std::int64_t index) const {
    static_cast<void>(index);
    return 1;
  }
  // A cheap identification of the content, for resume checks.
  virtual std::string fingerprint() const = 0;
  // As fingerprint(), for caches that outlive a run: also differs when a file has changed.
  virtual std::string content_key() const { return fingerprint(); }
  // As fingerprint(), for comparing the data of several processes. Reads all bytes of arrays, and
  // names and sizes of image files.
  virtual std::string common_content() const { return fingerprint(); }
};

}  // namespace trainer::data
