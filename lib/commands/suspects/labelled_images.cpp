#include "commands/suspects/labelled_images.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/samples/splits.h"
#include "results/evaluation/find_class.h"

namespace trainer::commands {

LabelledImages::LabelledImages(const config::Config& config)
    : sets_(data::open_datasets(config.data, config.seed)) {
  // Otherwise the image that stands in for a damaged file would be a copy.
  if (sets_.train) {
    data::leave_out_unreadable(sets_.train, sets_.train_files, data::DamagedFiles::Portion::kMain);
  }
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const auto& set = sets_.dataset(split);
    if (!set) continue;
    for (std::int64_t i = 0; i < set->size(); ++i) {
      const std::int32_t label = set->spec().is_multi_label() ? -1 : set->label_at(i);
      if (label < 0) {
        throw ConfigError(config.data.loc,
                          "--suspects needs one class per image, and images of this config have "
                          "several labels or numbers");
      }
      images_.push_back({split, i, set->describe(i), label});
      by_path_.emplace(printable(images_.back().path), images_.size() - 1);
    }
  }
}

std::string LabelledImages::class_name(std::int32_t label) const {
  return results::class_name(sets_.classes, static_cast<std::size_t>(label));
}

std::vector<std::size_t> LabelledImages::find(const std::string& path, Split first) const {
  std::vector<std::size_t> found;
  const auto [begin, end] = by_path_.equal_range(printable(path));
  for (auto at = begin; at != end; ++at) found.push_back(at->second);
  std::stable_partition(found.begin(), found.end(),
                        [&](std::size_t image) { return images_[image].split == first; });
  return found;
}

}  // namespace trainer::commands
