// The kept features of a frozen prefix, as data sets.
// Reasons: lib/decisions/train.md#cached-features.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "config/config.h"
#include "data/data.h"
#include "data/features.h"
#include "engine/replicas.h"
#include "train/feature_plan.h"
#include "train/process_group.h"

namespace trainer::train {

// The kept features of a run.
class FeatureCaches {
 public:
  FeatureCaches() = default;
  // Files go below `run`; those of other keys there are removed. The weights must be in place.
  // Throws DataError when the memory or the disk lacks the space, or the ranks of `group` do not
  // see the same files, unless the choice is auto. Collective.
  FeatureCaches(const FeaturePlan& plan, const config::Config& config,
                const engine::Replicas& engine, const data::Datasets& data, const Path& run,
                ProcessGroup& group);
  // The features of a split's data set; null when they are not kept.
  data::FeatureDataset* of(const data::Dataset* images) const;
  // Why there are none after all; "" otherwise.
  const std::string& problem() const { return problem_; }

 private:
  using Files = std::map<const data::Dataset*, Path>;  // an empty path: in memory
  void open(const engine::FrozenPrefix& prefix, const Files& files);
  // The chief first. Why it cannot be, on any of them; "" otherwise.
  std::string open_together(const engine::FrozenPrefix& prefix, const Files& files,
                            ProcessGroup& group);

  std::string problem_;
  std::map<const data::Dataset*, std::unique_ptr<data::FeatureDataset>> caches_;
};

}  // namespace trainer::train
