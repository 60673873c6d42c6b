// Finds images that show none of the classes: `evaluate --novelty` finds the limit of the distance
// to the training images, and stores it in the run; `predict` uses it.
//
// The distance is that of NearestRows between features, the output of the layer before the last one
// with weights, of an image and of training images. Reasons:
// lib/decisions/inference.md#novelty-is-the-distance-to-the-nearest-training-images.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/split.h"
#include "engine/engine.h"
#include "inference/open_model/open_model.h"
#include "inference/predict/nearest_rows.h"
#include "inference/predict/predict.h"
#include "results/decisions/novelty_report.h"

namespace trainer::inference {

// Returns which of `count` samples to keep so that at most `most` are: as many of each class as
// there are if they are few, otherwise the same number, evenly spaced. `labels` are by sample; the
// result is sorted.
std::vector<std::int64_t> choose_references(const std::vector<std::int32_t>& labels,
                                            std::int64_t most);

// The training images that distances are measured to.
struct References {
  NearestRows rows;
  std::vector<std::string> names;
  std::vector<std::int32_t> labels;  // -1 for images without one class
};

// What the run of a model stores about novelty.
struct StoredNovelty {
  double limit = 0;  // images of a larger distance are novel
  References references;

  // Returns the novelty of an image from its features.
  results::Novelty judge(std::span<const float> features,
                         const std::vector<std::string>& classes) const;
};
// Returns the novelty of the run, which `evaluate --novelty` stores, if it has one. Warns of one
// that belongs to other parameters, and ignores it. Throws DataError for damaged files.
std::optional<StoredNovelty> find_novelty(const OpenedModel& opened, bool flip);

// Throws DataError if the features of the stored images are not as wide as those of the model.
void check_width(const OpenedModel& opened, const StoredNovelty& novelty, std::int64_t features);

struct NoveltyOptions {
  double false_alarms = 0.05;  // the share that is allowed
  std::string unknown;         // a folder with images of other things; none when empty
};
// Throws ConfigError for a model without classes and for a split on which nothing can be measured.
void check_novelty(const OpenedModel& opened, Split split);
// Finds the limit on the validation split, measures it on `split`, and stores it in the run with
// the features of the training images. Returns the report; `stored` becomes the file, or "" for a
// model without a run folder.
results::NoveltyReport evaluate_novelty(const OpenedModel& opened, Split split,
                                        const NoveltyOptions& options, std::string& stored);

}  // namespace trainer::inference
