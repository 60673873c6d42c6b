#include "train/features/feed.h"

#include <algorithm>
#include <utility>

#include "engine/evaluate.h"

namespace trainer::train {

Feed::Feed(const data::Dataset& images, data::FeatureDataset* features, engine::Engine& engine,
           const data::LoaderOptions& options)
    : images_(images), features_(features), engine_(engine), options_(options) {
  options_.out = engine.replica().launches_in_flight();
  options_.allocate = engine.host_allocator();
  open();
}

// Opens the next loader. While features are missing, it reads images to the end of the epoch only.
void Feed::open() {
  if (!sources_.empty() && sources_.back().out == 0) close_oldest();
  ready_ = features_ != nullptr && features_->complete();
  data::LoaderOptions options = options_;
  if (features_ != nullptr && !ready_) {
    const std::int64_t epoch = options.epoch_batches(images_.size());
    options.end_step = std::min(*options.end_step, (options.first_step / epoch + 1) * epoch);
  }
  loader_end_ = *options.end_step;
  const data::Dataset& samples = ready_ ? static_cast<const data::Dataset&>(*features_) : images_;
  sources_.push_back({data::make_loader(samples, options)});
}

void Feed::close_oldest() {
  waited_ += sources_.front().loader->seconds_waited();
  sources_.pop_front();
}

double Feed::seconds_waited() const {
  double seconds = waited_;
  for (const Source& source : sources_) seconds += source.loader->seconds_waited();
  return seconds;
}

const data::Batch& Feed::next() {
  look_ahead();
  return *std::exchange(ahead_, nullptr);
}

void Feed::look_ahead() {
  if (ahead_ != nullptr) return;
  if (options_.first_step == loader_end_) open();
  Source& source = sources_.back();
  ahead_ = source.loader->next();
  ++source.out;
  ++options_.first_step;
}

engine::HostBatch Feed::host_batch(const data::Batch& batch) const {
  return engine::host_batch(batch, ready_);
}

hooks::StepInput Feed::input() const {
  using hooks::StepInput;
  if (features_ == nullptr) return StepInput::kSamples;
  return ready_ ? StepInput::kCachedFeatures : StepInput::kNewFeatures;
}

void Feed::keep_features(const data::Batch& batch) {
  if (features_ == nullptr || ready_) return;
  features_->store(batch, engine_.read_features(batch.range.count));
}

void Feed::release() {
  sources_.front().loader->release();
  if (--sources_.front().out == 0 && sources_.size() > 1) close_oldest();
}

}  // namespace trainer::train
