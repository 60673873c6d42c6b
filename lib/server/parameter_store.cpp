#include "server/parameter_store.h"

#include <algorithm>
#include <stdexcept>

#include "base/error.h"

namespace trainer::server {
namespace {

using backend::FlatBuffer;

void append(std::span<const float> values, std::string& to) {
  to.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

void check_size(const char* what, std::size_t found, std::size_t expected) {
  if (found == expected) return;
  throw std::invalid_argument(concat(found, " values of ", what, ", expected ", expected));
}

}  // namespace

void ParameterStore::initialise(const Start& start, Partition part, LearningRate rate) {
  const std::lock_guard lock(mutex_);
  if (shard_) throw std::invalid_argument("the server has been initialised already");
  shard_ =
      std::make_unique<backend::ParameterShard>(start.flat, part.first, part.first + part.count);
  count_ = part.count;
  segments_ = start.flat.segments.size();
  if (first_) statistics_.resize(start.flat.statistics);
  step_ = saved_ = start.step;
  total_ = start.total_steps;
  rate_ = std::move(rate);
}

std::span<float> ParameterStore::values(FlatBuffer buffer) {
  if (!shard_) throw std::invalid_argument("the server has not been initialised");
  if (buffer.kind == FlatBuffer::Kind::kStatistics) return statistics_;
  return shard_->values(buffer);
}

void ParameterStore::write(FlatBuffer buffer, std::span<const float> from) {
  const std::lock_guard lock(mutex_);
  const std::span<float> to = values(buffer);
  check_size("a buffer", from.size(), to.size());
  std::ranges::copy(from, to.begin());
}

void ParameterStore::start() {
  const std::lock_guard lock(mutex_);
  if (!shard_) throw std::invalid_argument("the server has not been initialised");
  started_ = true;
}

Pushed ParameterStore::push(const Push& push, std::string& parameters, std::string& statistics) {
  std::unique_lock lock(mutex_);
  if (!started_) throw std::invalid_argument("the chief has not started the job");
  check_size("a gradient", push.gradient.values.size(), count_);
  check_size("the statistics", push.statistics.size(), statistics_.size());
  check_size("the statistics", push.statistics_before.size(), statistics_.size());
  if (!push.gradient.clip_scales.empty()) {
    check_size("the clip scales", push.gradient.clip_scales.size(), segments_);
  }
  Pushed pushed;
  pushed.update = push.update;
  pushed.saved = saved_;
  if (first_) {
    changed_.wait(lock, [&] { return !held_ || closed_; });
    pushed.update = step_ + 1;
    pushed.staleness = step_ - push.pulled;
    if (closed_ || step_ >= total_) {
      pushed.result = Pushed::Result::kOver;
      pushed.step = step_;
      return pushed;
    }
  }
  if (first_ && first_->max_staleness && pushed.staleness > *first_->max_staleness) {
    pushed.result = Pushed::Result::kStale;
    ++staleness_.refused;
  } else {
    apply(push, pushed);
  }
  pushed.step = step_;
  append(shard_->values({FlatBuffer::Kind::kParameters}), parameters);
  append(statistics_, statistics);
  return pushed;
}

void ParameterStore::apply(const Push& push, Pushed& pushed) {
  pushed.learning_rate = rate_(pushed.update - 1);
  backend::Scalars scalars;
  scalars.learning_rate = static_cast<float>(pushed.learning_rate);
  scalars.update = static_cast<std::uint64_t>(pushed.update);
  shard_->update(push.gradient, scalars);
  ++step_;
  if (first_) {
    move_statistics(push, pushed.staleness == 0);
    ++applied_;
    staleness_sum_ += pushed.staleness;
    staleness_.mean = static_cast<double>(staleness_sum_) / static_cast<double>(applied_);
    staleness_.max = std::max(staleness_.max, pushed.staleness);
  }
  changed_.notify_all();
}

// Each step moves them a little; with several workers at once, all of these moves count. `alone`:
// they are still those that were pulled, and get the very values of a step without servers.
void ParameterStore::move_statistics(const Push& push, bool alone) {
  for (std::size_t i = 0; i < statistics_.size(); ++i) {
    const float moved = push.statistics[i];
    statistics_[i] = alone ? moved : statistics_[i] + (moved - push.statistics_before[i]);
  }
}

void ParameterStore::saved(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  saved_ = step;
}

Pushed ParameterStore::pull(std::string& parameters, std::string& statistics) {
  const std::lock_guard lock(mutex_);
  if (!started_) throw std::invalid_argument("the chief has not started the job");
  append(shard_->values({FlatBuffer::Kind::kParameters}), parameters);
  append(statistics_, statistics);
  Pushed now;
  now.step = step_;
  now.saved = saved_;
  return now;
}

std::int64_t ParameterStore::hold() {
  const std::lock_guard lock(mutex_);
  held_ = true;
  return step_;
}

void ParameterStore::release() {
  const std::lock_guard lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

Staleness ParameterStore::staleness() const {
  const std::lock_guard lock(mutex_);
  return staleness_;
}

void ParameterStore::read(FlatBuffer buffer, std::int64_t step, std::chrono::milliseconds patience,
                          std::string& to) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return step_ >= step || closed_; });
  step_ = std::max(step_, step);  // what has not come by now is given up
  append(values(buffer), to);
}

std::int64_t ParameterStore::step() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

void ParameterStore::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace trainer::server
