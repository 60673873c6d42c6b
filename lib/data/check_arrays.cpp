#include "data/check_arrays.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_map>

#include "base/error.h"
#include "base/files/files.h"
#include "base/threads/parallel.h"
#include "data/open.h"

namespace trainer::data {
namespace {

struct SampleCheck {
  float low = 0, high = 0;
  std::string hash;   // of the bytes of the sample
  std::string label;  // its bytes
};

void find_value_range(std::span<const std::uint8_t> image, DType type, SampleCheck& sample) {
  if (type == DType::kUInt8) {
    const auto [low, high] = std::ranges::minmax_element(image);
    sample.low = *low;
    sample.high = *high;
    return;
  }
  const std::span values(reinterpret_cast<const float*>(image.data()),
                         image.size() / sizeof(float));
  const auto [low, high] = std::ranges::minmax_element(values);
  sample.low = *low;
  sample.high = *high;
}

SampleCheck check_sample(const Dataset& dataset, std::int64_t index) {
  thread_local std::vector<std::uint8_t> image;
  image.resize(dataset.spec().image_bytes());
  SampleCheck sample;
  sample.label.resize(dataset.spec().label_bytes());
  dataset.get(index, image.data(), sample.label.data());
  find_value_range(image, dataset.spec().image_type, sample);
  sample.hash = sha256(image);
  return sample;
}

std::vector<SampleCheck> check_samples(const Dataset& dataset) {
  constexpr std::int64_t kBlock = 256;
  std::vector<SampleCheck> samples(dataset.size());
  parallel_for((dataset.size() + kBlock - 1) / kBlock, [&](std::size_t block) {
    const std::int64_t first = static_cast<std::int64_t>(block) * kBlock;
    const std::int64_t end = std::min(first + kBlock, dataset.size());
    for (std::int64_t i = first; i < end; ++i) {
      samples[i] = check_sample(dataset, i);
    }
  });
  return samples;
}

// Returns the class of a sample; -1 if its label is not a class.
std::int32_t read_class(const Dataset& dataset, const SampleCheck& sample) {
  std::int32_t label = -1;
  if (dataset.spec().label_is_index()) std::memcpy(&label, sample.label.data(), sizeof label);
  return label;
}

ArraySplitCheck summarise_samples(Split split, const Dataset& dataset,
                                  const std::vector<SampleCheck>& samples, std::size_t classes) {
  ArraySplitCheck result;
  result.split = split;
  result.samples = dataset.size();
  result.shape = dataset.spec().image_shape;
  result.type = dataset.spec().image_type;
  if (dataset.spec().label_is_index()) result.per_class.resize(classes);
  for (const LabelCounts& label : count_labels(dataset))
    result.per_class.push_back(label.positives);
  bool is_first = true;
  for (const SampleCheck& sample : samples) {
    if (const std::int32_t label = read_class(dataset, sample); label >= 0) {
      ++result.per_class.at(label);
    }
    result.constant += sample.low == sample.high ? 1 : 0;
    result.low = is_first ? sample.low : std::min(result.low, sample.low);
    result.high = is_first ? sample.high : std::max(result.high, sample.high);
    is_first = false;
  }
  return result;
}

// Finds equal samples within and between splits.
class EqualSamples {
 public:
  explicit EqualSamples(ArrayCheck& result) : result_(result) {}

  // `copies` becomes the number of samples that an earlier sample of this split equals.
  void add(Split split, const Dataset& dataset, const std::vector<SampleCheck>& samples,
           std::int64_t& copies) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      Seen place{split, describe_place(split, dataset, i, samples[i]), samples[i].label};
      std::vector<Seen>& equal = seen_[samples[i].hash];
      const auto in_split = [&](const Seen& seen) { return seen.split == split; };
      if (std::ranges::any_of(equal, in_split)) ++copies;
      const auto find_other = [&](const auto& differs) {
        return std::ranges::find_if(equal, differs);
      };
      const auto shared = find_other([&](const Seen& seen) { return seen.split != split; });
      if (shared != equal.end()) {
        result_.shared.push_back(concat(shared->place, " = ", place.place));
      }
      const auto conflict = find_other([&](const Seen& seen) { return seen.label != place.label; });
      if (conflict != equal.end()) {
        result_.conflicts.push_back(concat(conflict->place, " = ", place.place));
      }
      // One of the equal samples of each split and label is kept.
      const bool is_known = std::ranges::any_of(equal, [&](const Seen& seen) {
        return seen.split == split && seen.label == place.label;
      });
      if (!is_known) equal.push_back(std::move(place));
    }
  }

 private:
  struct Seen {
    Split split;
    std::string place, label;
  };

  std::string describe_place(Split split, const Dataset& dataset, std::size_t index,
                             const SampleCheck& sample) const {
    const std::int32_t label = read_class(dataset, sample);
    const std::string place = concat(to_string(split), ' ', index);
    return label < 0 ? place : concat(place, " (", result_.classes.at(label), ')');
  }

  ArrayCheck& result_;
  std::unordered_map<std::string, std::vector<Seen>> seen_;  // by hash
};

}  // namespace

bool ArrayCheck::clean() const { return shared.empty() && conflicts.empty(); }

ArrayCheck check_arrays(const config::Data& data, std::uint64_t seed) {
  const Datasets sets = open_datasets(data, seed);
  ArrayCheck result;
  result.classes = sets.classes;
  EqualSamples equal(result);
  for (const Split split : kSplits) {
    const Dataset* const dataset = sets.dataset(split).get();
    if (dataset == nullptr) continue;
    const std::vector<SampleCheck> samples = check_samples(*dataset);
    result.splits.push_back(summarise_samples(split, *dataset, samples, result.classes.size()));
    equal.add(split, *dataset, samples, result.splits.back().copies);
  }
  return result;
}

}  // namespace trainer::data
