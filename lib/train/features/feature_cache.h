// Keeps the features of a frozen prefix as data sets.
// Reasons: lib/decisions/train.md#cached-features.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "config/config.h"
#include "data/open.h"
#include "data/samples/features.h"
#include "engine/replicas.h"
#include "train/feature_plan.h"
#include "train/process_group.h"

namespace trainer::train {

// The kept features of a run.
class FeatureCaches {
 public:
  FeatureCaches() = default;
  // Writes files below `run` and removes files of other keys there. The engine must have its
  // weights. Throws DataError if the memory or the disk lacks the space, or the ranks of `group` do
  // not see the same files, unless the choice is auto. Collective.
  FeatureCaches(const FeaturePlan& plan, const config::Config& config,
                const engine::Replicas& engine, const data::Datasets& data, const Path& run,
                ProcessGroup& group);
  // Returns the features of a split's data set; null if they are not kept.
  data::FeatureDataset* find(const data::Dataset* images) const;
  // Returns why planned features are not kept; "" if they are.
  const std::string& problem() const { return problem_; }

 private:
  using Files = std::map<const data::Dataset*, Path>;  // an empty path: in memory
  void open(const engine::FrozenPrefix& prefix, const Files& files);
  // Opens the files on the chief and then on the other ranks. Returns the reason of any rank that
  // cannot open them; "" otherwise.
  std::string open_together(const engine::FrozenPrefix& prefix, const Files& files,
                            ProcessGroup& group);

  std::string problem_;
  std::map<const data::Dataset*, std::unique_ptr<data::FeatureDataset>> caches_;
};

}  // namespace trainer::train
