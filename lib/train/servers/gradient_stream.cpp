#include "train/servers/gradient_stream.h"

#include <chrono>

#include "base/numbers/partition.h"
#include "data/not_finite.h"

namespace trainer::train {

GradientStream::GradientStream(const config::Config& config, const data::Dataset& images,
                               engine::Engine& engine, ParameterServers& servers, std::int64_t step)
    : images_(images),
      engine_(engine),
      servers_(servers),
      plan_(plan_steps(config, images.size(), servers.workers())),
      step_(step / servers.workers()) {
  data::LoaderOptions options = data::make_loader_options(config);
  options.batch_size = plan_.batch;
  options.rank = servers.worker();
  options.ranks = servers.workers();
  options.adapt = true;
  options.first_step = plan_.batches(step_).first;
  // The feed never ends, because this worker may make all steps of the job alone, and the servers
  // may reject some of its gradients.
  constexpr std::int64_t kEndless = std::int64_t{1} << 48;
  options.end_step = kEndless;
  feed_ = std::make_unique<Feed>(images, nullptr, engine, options);
}

// Returns the samples of this worker's part of a step.
std::int64_t GradientStream::count_samples(std::int64_t step) const {
  const TrainingPlan::Batches batches = plan_.batches(step);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < batches.count; ++i) {
    const auto range = data::batch_range(plan_.samples, plan_.batch, batches.first + i);
    count += partition(range.count, servers_.workers(), servers_.worker()).count;
  }
  return count;
}

GradientStream::Step GradientStream::next() {
  // The short batch at the end of an epoch may have no samples for this worker.
  for (; count_samples(step_) == 0; ++step_) {
    for (std::int64_t i = 0; i < plan_.batches(step_).count; ++i) {
      feed_->next();
      feed_->release();
    }
  }
  Step result;
  result.samples = count_samples(step_);
  backend::Scalars scalars;
  scalars.update = static_cast<std::uint64_t>(step_ + 1);
  scalars.loss_scale = 1.0 / static_cast<double>(result.samples);
  scalars.apply = false;
  std::int64_t done = 0;
  const std::int64_t batches = plan_.batches(step_).count;
  for (std::int64_t i = 0; i < batches; ++i) {
    const data::Batch& batch = feed_->next();
    const std::int64_t count = batch.range.count;
    if (count > 0) {
      const engine::HostBatch input = feed_->host_batch(batch);
      scalars.first_sample = static_cast<std::uint64_t>(done + batch.offset);
      const engine::StepResult call = engine_.step(input, scalars);
      if (!call.finite) {
        result.blame = data::blame_samples(images_, batch.indices, engine_.losses());
        result.not_finite = engine_.find_not_finite(input, scalars);
        return result;
      }
      scalars.accumulate = true;
      result.loss += call.loss;
      result.correct += call.correct;
      result.penalty = call.penalty;
      result.times += engine_.times().front();
    }
    done += batch.global;
    feed_->release();
  }
  ++step_;
  const auto start = std::chrono::steady_clock::now();
  result.pushed = servers_.push(engine_);
  const std::chrono::duration<double> pushed = std::chrono::steady_clock::now() - start;
  result.times.all_reduce += pushed.count();
  return result;
}

}  // namespace trainer::train
