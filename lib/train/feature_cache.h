// Whether and where the features of a frozen prefix are kept, and the data sets of those kept.
//
// Of several processes each sees other samples in every epoch: they keep the features in files that
// all of them fill and read, which only processes of one machine can.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "config/config.h"
#include "data/data.h"
#include "data/features.h"
#include "engine/replicas.h"
#include "train/workers.h"

namespace trainer::train {

// What the choice depends on of one split.
struct FeatureSplit {
  std::string name;  // "train", "validation", "test"
  std::int64_t samples = 0;
  bool random = false;  // other images in every epoch
};

struct FeaturePlan {
  enum class Where { kNowhere, kMemory, kDisk } where = Where::kNowhere;
  std::vector<std::string> splits;  // whose features are kept
  std::string reason;               // why nothing, or not those of the training split; "" otherwise
  bool reason_matters = false;      // the config has a prefix whose features could be kept
  std::int64_t bytes = 0;           // of all of them
};

// Who shares the features.
enum class Sharing { kAlone, kOneMachine, kSeveralMachines };
Sharing sharing_of(const Workers* workers);

// The choice for a run that has so many epochs to go in `stage` and later ones. Throws ConfigError
// when the config demands a cache that is not possible; a later stage does without.
FeaturePlan plan_features(const config::Config& config, const engine::Replicas& engine,
                          const std::vector<FeatureSplit>& splits, double epochs, Sharing sharing,
                          std::size_t stage = 0);
// One line: "in memory, 25,088 float32 numbers a sample after flatten, 95.7 MiB", or the reason.
std::string describe(const FeaturePlan& plan);

// What can be told of opened data.
std::vector<FeatureSplit> feature_splits(const data::Datasets& data);

// The kept features of a run.
class FeatureCaches {
 public:
  FeatureCaches() = default;
  // Files go below `run`; those of other keys there are removed. The weights must be in place.
  // Throws DataError when the memory or the disk lacks the space, or `workers` do not see the
  // same files, unless the choice is auto. Collective.
  FeatureCaches(const FeaturePlan& plan, const config::Config& config,
                const engine::Replicas& engine, const data::Datasets& data, const Path& run,
                Workers* workers = nullptr);
  // The features of a split's data set; null when they are not kept.
  data::FeatureDataset* of(const data::Dataset* images) const;
  // Why there are none after all; "" otherwise.
  const std::string& problem() const { return problem_; }

 private:
  using Files = std::map<const data::Dataset*, Path>;  // an empty path: in memory
  void open(const engine::FrozenPrefix& prefix, const Files& files);
  // The chief first. Why it cannot be, on any of them; "" otherwise.
  std::string open_together(const engine::FrozenPrefix& prefix, const Files& files,
                            Workers& workers);

  std::string problem_;
  std::map<const data::Dataset*, std::unique_ptr<data::FeatureDataset>> caches_;
};

}  // namespace trainer::train
