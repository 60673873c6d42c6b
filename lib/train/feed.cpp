#include "train/feed.h"

#include <algorithm>
#include <utility>

#include "engine/evaluate.h"

namespace trainer::train {

Feed::Feed(const data::Dataset& images, data::FeatureDataset* features, engine::Replicas& engine,
           const data::LoaderOptions& options)
    : images_(images), features_(features), engine_(engine), options_(options) {
  open();
}

// While features are missing, images are read to the end of the epoch and no further.
void Feed::open() {
  if (loader_) waited_ += loader_->seconds_waited();
  ready_ = features_ != nullptr && features_->complete();
  data::LoaderOptions options = options_;
  if (features_ != nullptr && !ready_) {
    const std::int64_t epoch =
        data::batches_per_epoch(images_.size(), options.batch_size / options.passes);
    options.end_step = std::min(*options.end_step, (options.first_step / epoch + 1) * epoch);
  }
  loader_end_ = *options.end_step;
  loader_ = data::make_loader(ready_ ? *features_ : images_, options);
}

const data::Batch& Feed::next() {
  look_ahead();
  return *std::exchange(ahead_, nullptr);
}

void Feed::look_ahead() {
  if (ahead_ != nullptr) return;
  if (options_.first_step == loader_end_) open();
  ahead_ = loader_->next();
}

engine::HostBatch Feed::host_batch(const data::Batch& batch) const {
  return engine::host_batch(batch, ready_);
}

void Feed::keep_features(const data::Batch& batch) {
  if (features_ == nullptr || ready_) return;
  features_->store(batch, engine_.read_features(batch.range.count));
}

void Feed::release() {
  loader_->release();
  ++options_.first_step;
}

}  // namespace trainer::train
