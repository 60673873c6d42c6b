// Batches for training: images, and features from the first epoch on for which all are cached.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "data/features.h"
#include "engine/replicas.h"

namespace trainer::train {

class Feed {
 public:
  // `features` of `images`, or null. `options.end_step` must be given.
  Feed(const data::Dataset& images, data::FeatureDataset* features, engine::Replicas& engine,
       const data::LoaderOptions& options);

  // The next batch, in memory of the engine's host_allocator(); max_out() may be out at once.
  // Throws DataError when a sample of it cannot be read.
  const data::Batch& next();
  // Prefetches what next() returns; throws what next() would throw.
  void look_ahead();
  // The batch as the engine's input; valid until the batch is released.
  engine::HostBatch host_batch(const data::Batch& batch) const;
  // Caches the features of a batch that the engine was launched on, if they were computed.
  void keep_features(const data::Batch& batch);
  // Returns the oldest batch that is out; its memory is used again.
  void release();
  int max_out() const { return static_cast<int>(options_.out); }
  double seconds_waited() const;
  // "2 threads, 4 batches ahead": how the newest loader reads.
  std::string describe() const { return sources_.back().loader->describe(); }

 private:
  // A loader of images ends with its epoch; its last batches may be out while the next is read.
  struct Source {
    std::unique_ptr<data::Loader> loader;
    std::int64_t out = 0;  // batches
  };
  void open();
  void close_oldest();

  const data::Dataset& images_;
  data::FeatureDataset* features_;
  engine::Replicas& engine_;
  data::LoaderOptions options_;  // first_step: the next batch
  std::deque<Source> sources_;   // the last one is read
  std::int64_t loader_end_ = 0;
  const data::Batch* ahead_ = nullptr;  // looked at, and not given yet
  bool ready_ = false;                  // the loader gives features
  double waited_ = 0;                   // of loaders that are done
};

}  // namespace trainer::train
