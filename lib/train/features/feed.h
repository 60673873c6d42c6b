// Reads batches for training: images at first, and features from the first epoch for which all are
// cached.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "data/samples/features.h"
#include "engine/engine.h"
#include "hooks/hooks.h"

namespace trainer::train {

class Feed {
 public:
  // `features` are those of `images`, or null. `options.end_step` must be given.
  Feed(const data::Dataset& images, data::FeatureDataset* features, engine::Engine& engine,
       const data::LoaderOptions& options);

  // Returns the next batch, in memory of the engine's host_allocator(). At most max_out() batches
  // may be in use at once. Throws DataError if a sample cannot be read.
  const data::Batch& next();
  // Waits for the batch that next() will return; throws what next() would throw.
  void look_ahead();
  // Returns the batch as input of the engine; valid until the batch is released.
  engine::HostBatch host_batch(const data::Batch& batch) const;
  // Caches the features of a batch that the engine was launched on, if they were computed.
  void keep_features(const data::Batch& batch);
  // Returns what the batch that next() returned last holds.
  hooks::StepInput input() const;
  // Gives the oldest batch in use back; its memory is used again.
  void release();
  int max_out() const { return static_cast<int>(options_.out); }
  double seconds_waited() const;
  // Returns Loader::read_seconds() of the newest loader.
  double read_seconds() const { return sources_.back().loader->read_seconds(); }
  // Returns "2 threads, 4 batches ahead", which describes the newest loader.
  std::string describe() const { return sources_.back().loader->describe(); }

 private:
  // A loader of images ends with its epoch. Its last batches may still be in use while the next
  // loader reads.
  struct Source {
    std::unique_ptr<data::Loader> loader;
    std::int64_t out = 0;  // batches in use
  };
  void open();
  void close_oldest();

  const data::Dataset& images_;
  data::FeatureDataset* features_;
  engine::Engine& engine_;
  data::LoaderOptions options_;  // first_step: the next batch
  std::deque<Source> sources_;   // next() reads the last one
  std::int64_t loader_end_ = 0;
  const data::Batch* ahead_ = nullptr;  // the batch of look_ahead() that next() has not returned
  bool ready_ = false;                  // true if the loader reads features
  double waited_ = 0;                   // seconds of loaders that are closed
};

}  // namespace trainer::train
