// The interface of all data sets: samples of one shape, readable in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace trainer::data {

// Used instead of an epoch for the sample without random changes.
inline constexpr std::int64_t kNoEpoch = -1;

enum class LabelKind {
  kIndex,    // an int32 class, counted from 0
  kTargets,  // float32 numbers
  // A float32 number per label: 1 or 0 for samples with and without it, NaN if that is unknown.
  // Mixed samples have shares between 0 and 1.
  kMultiLabel,
};

// The labels of a sample of kind kMultiLabel, in ascending order. A label in neither list is known
// to be absent.
struct LabelSet {
  std::span<const std::int32_t> present;
  std::span<const std::int32_t> unknown;
};

// Shape and type of the samples of a data set.
struct DatasetSpec {
  Shape image_shape;                 // [height, width, channels]
  DType image_type = DType::kUInt8;  // kUInt8 or kFloat32; kBFloat16 for features only
  LabelKind label_kind = LabelKind::kIndex;
  std::int64_t label_width = 1;   // numbers per label; 1 for indices
  bool is_random = false;         // the image of a sample differs from epoch to epoch
  bool in_memory = false;         // get() copies memory, so that reading ahead is not worth it
  bool has_weights = false;       // weight_at() may differ from 1
  bool ends_with_weight = false;  // a row of a label ends with weight_at(), see weigh_samples()

  bool label_is_index() const { return label_kind == LabelKind::kIndex; }
  bool is_multi_label() const { return label_kind == LabelKind::kMultiLabel; }
  // Returns the numbers of a label without the weight that may end it.
  std::int64_t targets() const { return label_width - (ends_with_weight ? 1 : 0); }
  std::size_t image_bytes() const;
  std::size_t label_bytes() const;
};
// Returns whether images and labels have the same shape and type, so that one model takes both.
bool same_samples(const DatasetSpec& a, const DatasetSpec& b);

// A set of samples. Several threads may call const functions at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual const DatasetSpec& spec() const = 0;
  // Copies sample `index` to `image` (spec().image_bytes()) and its label to `label`
  // (spec().label_bytes()). If spec().is_random, the image is a function of the seed, the epoch and
  // the index. Throws DataError with the file and the sample.
  virtual void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const = 0;
  void get(std::int64_t index, void* image, void* label) const {
    get(index, kNoEpoch, image, label);
  }
  // Returns the name of a sample, its file or its number, as it is: messages need printable().
  virtual std::string describe(std::int64_t index) const { return std::to_string(index); }
  // Returns the class of a sample without reading its image; -1 if that is impossible.
  virtual std::int32_t label_at(std::int64_t /*index*/) const { return -1; }
  // Returns the name of the group of a sample (data.group_by), whose samples must be in one split;
  // "" for a sample without a group.
  virtual std::string group_at(std::int64_t /*index*/) const { return ""; }
  // Returns the labels of a sample of kind kMultiLabel without reading the image; none for other
  // kinds.
  virtual LabelSet label_set_at(std::int64_t /*index*/) const { return {}; }
  // Returns the factor of the loss of a sample.
  virtual float weight_at(std::int64_t /*index*/) const { return 1; }
  // The larger data set that this one takes samples from: sample i has the pixels and the label of
  // sample indices[i] of `whole`, if neither changes at random.
  struct Part {
    const Dataset* whole = nullptr;  // null: this data set is not a part, or has samples of its own
    std::span<const std::int64_t> indices;
  };
  virtual Part find_part() const { return {}; }
  // Identifies the content at little cost, for the checks of a resume.
  virtual std::string fingerprint() const = 0;
  // Identifies the content for caches that outlive a run: also differs after a change of a file.
  virtual std::string content_key() const { return fingerprint(); }
  // Identifies the content to compare the data of several processes. Reads all bytes of arrays, but
  // only the names and sizes of image files.
  virtual std::string common_content() const { return fingerprint(); }
};

// Returns label_at() of all samples.
std::vector<std::int32_t> list_labels(const Dataset& dataset);

// Counts samples with and without a label. A sample whose label is unknown is in neither.
struct LabelCounts {
  std::int64_t positives = 0, negatives = 0;
};
// Counts the samples of each label of kind kMultiLabel; empty for other kinds.
std::vector<LabelCounts> count_labels(const Dataset& dataset);

}  // namespace trainer::data
