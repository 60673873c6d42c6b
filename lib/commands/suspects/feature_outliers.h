// Images that are unlike all others by what the last hidden layer of a model gives for them.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "commands/suspects/judged.h"
#include "commands/suspects/labelled_images.h"

namespace trainer::commands {

struct FeatureOutlier {
  std::size_t image = 0;  // index into LabelledImages
  // The mean distance to the nearest images that the same run judges, divided by
  // find_outlier_limit() of these images; more than 1.
  double ratio = 0;
};

// Compares the images that each run judges with one another, as the features of different runs
// cannot be compared, and returns the outliers, the largest ratio first. Warns if the training data
// of runs of crossval has changed; judged images that are still there are then found by name. Warns
// and returns none if the model has no layer before its last one with weights. Throws DataError if
// arrays of runs of crossval have changed.
std::vector<FeatureOutlier> find_feature_outliers(const LabelledImages& images,
                                                  const JudgingRuns& runs,
                                                  const JudgedImages& judged,
                                                  const config::Environment& environment,
                                                  const std::function<void(const Notice&)>& warn);

}  // namespace trainer::commands
