#include "data/dataset.h"

namespace trainer::data {

std::size_t DatasetSpec::image_bytes() const {
  return static_cast<std::size_t>(image_shape.elements()) * size_of(image_type);
}

std::size_t DatasetSpec::label_bytes() const {
  return label_is_index() ? sizeof(std::int32_t) : label_width * sizeof(float);
}

bool same_samples(const DatasetSpec& a, const DatasetSpec& b) {
  return a.image_shape == b.image_shape && a.image_type == b.image_type &&
         a.label_kind == b.label_kind && a.label_width == b.label_width;
}

std::vector<std::int32_t> list_labels(const Dataset& dataset) {
  std::vector<std::int32_t> labels(dataset.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = dataset.label_at(static_cast<std::int64_t>(i));
  }
  return labels;
}

std::vector<LabelCounts> count_labels(const Dataset& dataset) {
  if (!dataset.spec().is_multi_label()) return {};
  std::vector<LabelCounts> counts(dataset.spec().targets());
  for (LabelCounts& each : counts) each.negatives = dataset.size();
  for (std::int64_t sample = 0; sample < dataset.size(); ++sample) {
    const LabelSet labels = dataset.label_set_at(sample);
    for (const std::int32_t label : labels.present) {
      ++counts[label].positives;
      --counts[label].negatives;
    }
    for (const std::int32_t label : labels.unknown) {
      --counts[label].negatives;
    }
  }
  return counts;
}

}  // namespace trainer::data
