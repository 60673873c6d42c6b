// Batches for the training: images, and from the epoch on in which all features are kept, features.
#pragma once

#include <cstdint>
#include <memory>

#include "data/features.h"
#include "engine/replicas.h"

namespace trainer::train {

class Feed {
 public:
  // `features` of `images`, or null. `options.end_step` must be given.
  Feed(const data::Dataset& images, data::FeatureDataset* features, engine::Replicas& engine,
       const data::LoaderOptions& options);

  // The next batch; the one before must have been released. Throws DataError when a sample of it
  // cannot be read.
  const data::Batch& next();
  // Waits for what next() will give, or throws what it would.
  void look_ahead();
  // What the engine takes for it.
  engine::HostBatch host_batch(const data::Batch& batch) const;
  // After the engine was launched on it: keeps the features that had to be computed.
  void keep_features(const data::Batch& batch);
  void release();
  double seconds_waited() const { return waited_ + loader_->seconds_waited(); }

 private:
  void open();

  const data::Dataset& images_;
  data::FeatureDataset* features_;
  engine::Replicas& engine_;
  data::LoaderOptions options_;  // first_step: the next batch
  std::unique_ptr<data::Loader> loader_;
  std::int64_t loader_end_ = 0;
  const data::Batch* ahead_ = nullptr;  // looked at, and not given yet
  bool ready_ = false;                  // the loader gives features
  double waited_ = 0;                   // of loaders that are done
};

}  // namespace trainer::train
