#include "train/asynchronous.h"

#include <chrono>
#include <numeric>

#include "base/error.h"
#include "base/partition.h"
#include "data/not_finite.h"
#include "engine/evaluate.h"
#include "server/server.h"
#include "train/signals.h"
#include "train/stages.h"

namespace trainer::train {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLook{50};  // between two looks for a signal

// How a job that is over for this task has ended. A server that lets go without a word has just
// been told: the word is on its way.
std::string reason_of(ParameterServers& servers, std::int64_t total_steps, milliseconds patience) {
  const auto limit = Clock::now() + patience;
  while (!servers.client().outcome() && servers.step() < total_steps && Clock::now() < limit) {
    std::this_thread::sleep_for(kLook);
  }
  servers.client().check();
  const auto outcome = servers.client().outcome();
  const bool interrupted = outcome && outcome->kind == server::Outcome::Kind::kInterrupted;
  return interrupted ? "interrupted" : "done";
}

}  // namespace

GradientStream::GradientStream(const config::Config& config, const data::Dataset& images,
                               engine::Replicas& engine, ParameterServers& servers,
                               std::int64_t step)
    : images_(images),
      engine_(engine),
      servers_(servers),
      plan_(plan_steps(config, images.size(), servers.workers())),
      loss_(static_cast<graph::LossKind>(config.model.loss)),
      step_(step / servers.workers()) {
  data::LoaderOptions options;
  options.batch_size = plan_.batch;
  options.rank = servers.worker();
  options.ranks = servers.workers();
  options.seed = config.seed;
  options.shuffle = config.data.shuffle;
  options.prefetch = config.data.prefetch;
  options.threads = config.data.threads;
  options.first_step = plan_.batches(step_).first;
  // It may have to make all steps of the job alone, some of them refused: there is always a batch.
  constexpr std::int64_t kEndless = std::int64_t{1} << 48;
  options.end_step = kEndless;
  feed_ = std::make_unique<Feed>(images, nullptr, engine, options);
}

// Of this worker's part.
std::int64_t GradientStream::samples_of(std::int64_t step) const {
  const StepPlan::Batches batches = plan_.batches(step);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < batches.count; ++i) {
    const auto range = data::batch_range(plan_.samples, plan_.batch, batches.first + i);
    count += partition(range.count, servers_.workers(), servers_.worker()).count;
  }
  return count;
}

GradientStream::Step GradientStream::next() {
  // The short batch at the end of an epoch may have nothing for this worker.
  for (; samples_of(step_) == 0; ++step_) {
    for (std::int64_t i = 0; i < plan_.batches(step_).count; ++i) {
      feed_->next();
      feed_->release();
    }
  }
  Step result;
  result.samples = samples_of(step_);
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
      const engine::StepResult numbers = engine_.step(input, scalars);
      if (!numbers.finite) {
        result.blame = data::blame_samples(images_, batch.indices, engine_.losses());
        result.not_finite = engine_.find_not_finite(input, scalars);
        return result;
      }
      scalars.accumulate = true;
      result.loss += numbers.loss;
      result.correct += numbers.correct;
    }
    done += batch.global;
    feed_->release();
  }
  ++step_;
  result.pushed = servers_.push(engine_);
  return result;
}

std::string work(const config::Config& config, const data::Datasets& data, engine::Replicas& engine,
                 ParameterServers& servers) {
  const SignalWatch signals;
  const StepPlan plan = plan_steps(config, data.train->size());
  try {
    servers.join(engine);
    GradientStream stream(config, *data.train, engine, servers, servers.step());
    while (SignalWatch::received() == nullptr) {
      const GradientStream::Step step = stream.next();
      if (step.not_finite) {
        const std::string bad = data::find_not_finite(config.data, *data.train);
        if (!bad.empty()) throw Error(kExitData, bad);
        throw CheckError(concat("the loss is not finite after step ", servers.step(),
                                step.not_finite->empty() ? "" : ": first seen in ",
                                *step.not_finite, ", ", step.blame,
                                ". The gradient was not given to the servers"));
      }
      if (step.pushed.result == server::Pushed::Result::kOver) {
        return reason_of(servers, plan.total_steps, timeout_of(config));
      }
    }
    return "interrupted";
  } catch (const PeerError& error) {
    throw PeerError(concat(error.what(), ". This worker was at step ", servers.step(),
                           ", the chief's last checkpoint is of step ", servers.saved(),
                           "; start the job again with --resume"));
  }
}

std::string serve(const config::Config& config, const cluster::Identity& who,
                  const std::function<void(const std::string&)>& say) {
  const SignalWatch signals;
  server::ServerOptions options;
  options.timeout = timeout_of(config);
  options.agreement = agreement_of(who, config);
  options.max_staleness = config.parallel.max_staleness;
  options.learning_rate = [&](std::int64_t samples) {
    return learning_rate_of(config, plan_steps(config, samples));
  };
  options.say = say;
  server::Server server(who, options);
  say(concat("ps:", who.index, " listens at ",
             to_string(who.cluster.ps[static_cast<std::size_t>(who.index)])));
  std::optional<server::Outcome> outcome;
  std::optional<Clock::time_point> limit;  // for the chief to save
  const server::Outcome interrupted{server::Outcome::Kind::kInterrupted, ""};
  while (!(outcome = server.wait(kLook))) {
    if (SignalWatch::received() == nullptr) continue;
    if (!server.request_stop()) outcome = interrupted;
    if (!limit) limit = Clock::now() + options.timeout;
    if (Clock::now() > *limit) outcome = interrupted;
    if (outcome) break;
  }
  server.close(*outcome);
  if (outcome->kind == server::Outcome::Kind::kFailed) throw PeerError(outcome->message);
  return outcome->kind == server::Outcome::Kind::kInterrupted ? "interrupted" : "done";
}

}  // namespace trainer::train
