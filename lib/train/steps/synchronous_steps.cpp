#include "train/steps/synchronous_steps.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/numbers/sum_tree.h"
#include "data/not_finite.h"
#include "train/features/feature_cache.h"
#include "train/loop/run_context.h"

namespace trainer::train {
namespace {

// Applies the finalizer of SplitMix64, a bijection whose every output bit depends on all input
// bits.
std::uint64_t mix_bits(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

// Returns the sum of the hashes of the samples, each with its position in the step. The sum over
// the ranks does not depend on how the ranks divide the samples.
std::uint64_t hash_samples(const data::Batch& batch, std::int64_t first_position) {
  std::uint64_t sum = 0;
  auto position = static_cast<std::uint64_t>(first_position);
  for (const std::int64_t index : batch.indices) {
    sum += mix_bits(mix_bits(++position) ^ static_cast<std::uint64_t>(index));
  }
  return sum;
}

}  // namespace

SynchronousSteps::SynchronousSteps(RunContext& context)
    : context_(context), group_(context.job.group) {}

void SynchronousSteps::open_feed(FeatureCaches& features) {
  const Job& job = context_.job;
  const TrainingPlan& plan = job.plan;
  next_step_ = context_.state.step;
  next_batch_agreed_ = false;
  has_statistics_ = !job.engine.statistics().front().empty();
  data::LoaderOptions options = data::make_loader_options(job.config);
  options.batch_size = plan.batch;
  options.passes_per_epoch = plan.passes_per_epoch;
  options.rank = group_.rank();
  options.ranks = group_.size();
  options.leaves = job.engine.replica().leaves();
  options.adapt = true;
  options.progress = job.progress;
  options.first_step = plan.batches(next_step_).first;
  const TrainingPlan::Batches last = plan.batches(std::max<std::int64_t>(plan.total_steps - 1, 0));
  options.end_step = std::max(options.first_step, last.first + last.count);
  const data::Dataset* images = job.data.train.get();
  feed_ = std::make_unique<Feed>(*images, features.claim(images), job.engine, options);
  prepare_short_batch(*options.end_step);
}

// Plans for the short last batch of an epoch ahead, because planning in an epoch delays the
// devices.
void SynchronousSteps::prepare_short_batch(std::int64_t end_batch) {
  const Job& job = context_.job;
  const TrainingPlan& plan = job.plan;
  if (end_batch < plan.batches_per_epoch) return;
  const std::int64_t all = plan.count_batch_samples(plan.batches_per_epoch - 1);
  if (all == plan.batch) return;
  job.engine.prepare(
      rank_samples(all, job.engine.replica().leaves(), group_.size(), group_.rank()).count, all);
}

// Waits for calls in flight, also those that only some of the replicas have launched: they may read
// the feed's memory even after an error.
void SynchronousSteps::close_feed() {
  for (; !calls_.empty(); calls_.pop_front()) {
    try {
      context_.job.engine.result();
    } catch (const std::exception&) {
      // Only the first error is reported.
    }
  }
  context_.job.engine.finish_uploads();
  steps_.clear();
  feed_.reset();
}

// A step with several calls keeps the moving statistics before it, for the case that it cannot be
// finished. They can be read only while no other step is in flight.
int SynchronousSteps::max_in_flight() const {
  const Job& job = context_.job;
  if (job.plan.accumulate > 1 && has_statistics_) return 1;
  return std::min(job.engine.replica().launches_in_flight(), feed_->max_out());
}

bool SynchronousSteps::launch(std::int64_t step) {
  if (group_.size() > 1) {
    group_.set_phase(context_.phase(concat("training, step ", step + 1)));
  }
  if (!steps_.empty() && steps_.back().is_broken()) return false;
  const Job& job = context_.job;
  Step& launched = steps_.emplace_back();
  launched.number = step;
  launched.samples = job.plan.count_samples(step);
  launched.learning_rate = context_.rate(step);
  if (!launch_calls(launched)) {
    steps_.pop_back();
    return false;
  }
  next_step_ = step + 1;
  return true;
}

bool SynchronousSteps::keeps_statistics(const Step& step) const {
  return has_statistics_ && context_.job.plan.batches(step.number).count > 1;
}

void SynchronousSteps::restore_statistics(const Step& step) {
  if (keeps_statistics(step)) context_.job.engine.restore(statistics_);
}

// Returns false if a batch cannot be read. The state is then as before the step.
bool SynchronousSteps::launch_calls(Step& step) {
  engine::Engine& engine = context_.job.engine;
  const TrainingPlan::Batches batches = context_.job.plan.batches(step.number);
  if (keeps_statistics(step)) statistics_ = engine.statistics();
  backend::Scalars scalars;
  scalars.learning_rate = static_cast<float>(step.learning_rate);
  scalars.update = static_cast<std::uint64_t>(step.number + 1);
  scalars.loss_scale = 1.0 / static_cast<double>(step.samples);
  scalars.stop_when_not_finite = true;  // the loop ends then, and steps in flight must not go on
  const auto max_calls =
      static_cast<std::size_t>(std::min(engine.replica().launches_in_flight(), feed_->max_out()));
  std::int64_t done = 0;  // samples of the step's batches so far, of all ranks
  for (std::int64_t i = 0; i < batches.count; ++i) {
    while (calls_.size() >= max_calls) read_oldest_call();
    if (step.is_broken()) return true;  // result() reports it
    const data::Batch* batch = next_batch();
    if (batch == nullptr) {
      read_all_calls();
      restore_statistics(step);
      return false;
    }
    const engine::HostBatch input = feed_->host_batch(*batch);
    step.input = feed_->input();
    scalars.accumulate = i > 0;
    scalars.apply = i + 1 == batches.count;
    scalars.all_samples = batch->global;
    scalars.first_sample = static_cast<std::uint64_t>(done + batch->offset);
    engine.launch(input, scalars);
    feed_->keep_features(*batch);
    calls_.push_back({&step, batch, input, scalars});
    step.sample_ids += hash_samples(*batch, done + batch->offset);
    done += batch->global;
  }
  return true;
}

// Returns null if a rank cannot read its part. All ranks then end before a collective call in which
// one of them would be missing.
const data::Batch* SynchronousSteps::next_batch() {
  ReadFailure& failure = context_.failure;
  const data::Batch* batch = nullptr;
  failure.guard([&] { batch = &feed_->next(); });
  if (!std::exchange(next_batch_agreed_, false)) {
    failure.set_any_rank(group_.any_rank(!failure.message().empty()));
  }
  return failure.any_rank() ? nullptr : batch;
}

void SynchronousSteps::prefetch_next_batch() {
  if (next_step_ >= context_.job.plan.total_steps) return;
  context_.failure.guard([&] { feed_->look_ahead(); });
  next_batch_agreed_ = true;
}

void SynchronousSteps::read_all_calls() {
  while (!calls_.empty()) read_oldest_call();
}

void SynchronousSteps::read_oldest_call() {
  const Call call = calls_.front();
  calls_.pop_front();
  const engine::StepResult result = context_.job.engine.result();
  Step& step = *call.step;
  if (!step.is_broken()) {
    if (!result.finite) explain_not_finite(call);
    if (result.update_not_finite) explain_update(call);
  }
  step.loss += result.loss;
  step.correct += result.correct;
  step.penalty = result.penalty;
  step.skipped = step.skipped || result.skipped;
  step.gradient_norm = result.gradient_norm;
  const std::span<const backend::PhaseTimes> times = context_.job.engine.times();
  step.times.resize(times.size());
  for (std::size_t i = 0; i < times.size(); ++i) step.times[i] += times[i];
  feed_->release();
}

// A loss that is not finite because of samples that are not finite counts as a failure of the data.
void SynchronousSteps::explain_not_finite(const Call& call) {
  const Job& job = context_.job;
  const data::Dataset& images = *job.data.train;
  ReadFailure& failure = context_.failure;
  failure.set_message(data::find_not_finite(job.config.data, images));
  if (!failure.message().empty()) {
    failure.set_any_rank(true);
    call.step->has_bad_data = true;
    return;
  }
  const std::string blame = data::blame_samples(images, call.batch->indices, job.engine.losses());
  call.step->not_finite = NotFinite{job.engine.find_not_finite(call.input, call.scalars), blame,
                                    static_cast<double>(call.scalars.learning_rate)};
}

// Samples that are not finite do not count as a failure of the data here, because the state after
// the update cannot be saved.
void SynchronousSteps::explain_update(const Call& call) {
  const Job& job = context_.job;
  call.step->not_finite =
      NotFinite{job.engine.find_not_finite(call.input, call.scalars), "",
                static_cast<double>(call.scalars.learning_rate), NotFinite::Found::kUpdate,
                data::find_not_finite(job.config.data, *job.data.train)};
}

std::optional<StepOutcome> SynchronousSteps::result() {
  Step& step = steps_.front();
  while (!calls_.empty() && calls_.front().step == &step) read_oldest_call();
  const Step done = std::move(step);
  steps_.pop_front();
  if (done.has_bad_data) {
    restore_statistics(done);
    return std::nullopt;
  }
  StepOutcome outcome;
  outcome.not_finite = done.not_finite;
  outcome.penalty = done.penalty;
  outcome.times = done.times;
  hooks::StepRecord& record = outcome.record;
  const auto samples = static_cast<double>(done.samples);
  record.step = done.number + 1;
  record.epoch = context_.job.plan.epoch(record.step);
  record.samples = done.samples;
  record.sample_ids = done.sample_ids;
  record.loss = done.loss / samples;
  record.accuracy = static_cast<double>(done.correct) / samples;
  record.learning_rate = static_cast<double>(static_cast<float>(done.learning_rate));
  record.input = done.input;
  record.skipped = done.skipped;
  record.gradient_norm = done.gradient_norm;
  if (group_.size() > 1 && !outcome.not_finite) prefetch_next_batch();
  return outcome;
}

std::unique_ptr<Steps> make_synchronous_steps(RunContext& context) {
  return std::make_unique<SynchronousSteps>(context);
}

}  // namespace trainer::train
