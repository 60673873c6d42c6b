#include "commands/plan/step_profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/seconds.h"
#include "base/numbers/statistics.h"
#include "cluster/communicator.h"
#include "commands/measure/batches.h"
#include "engine/compile_options.h"
#include "engine/engine.h"
#include "engine/evaluate.h"
#include "results/read_json.h"
#include "results/train_events.h"
#include "train/schedule/training_plan.h"

namespace trainer::commands {
namespace {

using Clock = std::chrono::steady_clock;

struct Message {
  std::int64_t bytes = 0;
  Clock::time_point at;
};

// What a worker sends in a step, with the times.
struct Sent {
  std::mutex mutex;
  std::vector<Message> gradients, statistics;

  void clear() {
    const std::lock_guard lock(mutex);
    gradients.clear();
    statistics.clear();
  }
};

// A group of one, which has nobody to send to and notes what it would send.
class Alone final : public cluster::Communicator {
 public:
  Alone(Sent& sent, std::vector<Message>& list) : sent_(sent), list_(list) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(std::span<float> values) override { note(values.size_bytes()); }
  void all_reduce(std::span<double> values) override { note(values.size_bytes()); }
  void all_reduce(std::span<std::int64_t> values) override { note(values.size_bytes()); }
  void all_reduce_tree(std::int64_t, std::span<float* const>, std::size_t count) override {
    note(count * sizeof(float));
  }
  void broadcast(std::span<std::byte>, int) override {}
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::ranges::copy(mine, all.begin());
    note(mine.size());
  }
  void barrier() override {}
  // Replicas duplicate their group for batch norm.
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<Alone>(sent_, sent_.statistics);
  }
  void abort(const std::string&) noexcept override {}

 private:
  void note(std::size_t bytes) {
    const std::lock_guard lock(sent_.mutex);
    list_.push_back({static_cast<std::int64_t>(bytes), Clock::now()});
  }
  Sent& sent_;
  std::vector<Message>& list_;
};

// Steps of a config, one after the other, as a worker runs them.
class Steps {
 public:
  Steps(const config::Config& config, const backend::Platform& platform, const graph::Graph& model,
        const data::Dataset& dataset)
      : plan_(train::plan_steps(config, dataset.size())),
        rate_(learning_rate(config, plan_)),
        alone_(sent_, sent_.gradients),
        engine_(model, config, engine::open_backends(config, platform), engine::Use::kTrain,
                &alone_) {
    data::LoaderOptions options = loader_options(config, engine_);
    options.batch_size = plan_.batch;
    options.passes_per_epoch = plan_.passes_per_epoch;
    loader_ = data::make_loader(dataset, options);
    engine_.initialise(config.seed);
  }

  std::int64_t samples() const {
    return std::min(plan_.batch, plan_.samples * plan_.passes_per_epoch) * plan_.accumulate;
  }
  std::string describe() const { return engine_.describe(); }

  StepProfile measure(double seconds) {
    constexpr int kWarmUpSteps = 3, kMinSteps = 5;
    for (int i = 0; i < kWarmUpSteps; ++i) step();
    std::vector<double> times;
    std::vector<std::vector<double>> ready;  // by bucket
    StepProfile profile;
    const Clock::time_point begin = Clock::now();
    while (static_cast<int>(times.size()) < kMinSteps || seconds_since(begin) < seconds) {
      const Clock::time_point start = Clock::now();
      if (step() < samples()) continue;  // the last batch of an epoch
      times.push_back(seconds_since(start));
      ready.resize(sent_.gradients.size());
      profile.buckets.resize(sent_.gradients.size());
      for (std::size_t i = 0; i < ready.size(); ++i) {
        ready[i].push_back(seconds_between(start, sent_.gradients[i].at));
        profile.buckets[i].bytes = sent_.gradients[i].bytes;
      }
      profile.statistics.clear();
      for (const Message& message : sent_.statistics) profile.statistics.push_back(message.bytes);
    }
    for (std::size_t i = 0; i < ready.size(); ++i) profile.buckets[i].ready = median(ready[i]);
    profile.samples = samples();
    profile.seconds = median(times);
    profile.source = concat("measured in ", times.size(), " steps on ", describe());
    return profile;
  }

 private:
  // Its samples.
  std::int64_t step() {
    sent_.clear();
    std::int64_t samples = 0;
    scalars_.learning_rate = static_cast<float>(rate_(static_cast<std::int64_t>(scalars_.update)));
    ++scalars_.update;
    for (std::int64_t i = 0; i < plan_.accumulate; ++i) {
      const data::Batch* batch = loader_->next();
      scalars_.accumulate = i > 0;
      scalars_.apply = i + 1 == plan_.accumulate;
      scalars_.all_samples = batch->global;
      scalars_.loss_scale = 1.0 / static_cast<double>(batch->global * plan_.accumulate);
      engine_.step(engine::host_batch(*batch, false), scalars_);
      samples += batch->global;
      loader_->release();
    }
    return samples;
  }

  train::TrainingPlan plan_;
  optim::LearningRate rate_;
  Sent sent_;
  Alone alone_;
  engine::Engine engine_;
  std::unique_ptr<data::Loader> loader_;
  backend::Scalars scalars_{0, 0};
};

// The bytes and the layer of each bucket, by the layers from last to first.
struct LayerBucket {
  std::int64_t bytes = 0;
  std::size_t layer = 0;  // with whose gradient it is complete
};
std::vector<LayerBucket> make_buckets(const std::vector<model::LayerRow>& layers, double limit) {
  std::vector<LayerBucket> buckets;
  LayerBucket open;
  for (std::size_t i = layers.size(); i-- > 0;) {
    const std::int64_t bytes = layers[i].trainable_parameters * 4;
    if (bytes == 0) continue;
    open.bytes += bytes;
    open.layer = i;
    if (limit <= 0 || static_cast<double>(open.bytes) < limit) continue;
    buckets.push_back(open);
    open = {};
  }
  if (open.bytes > 0) buckets.push_back(open);
  return buckets;
}

}  // namespace

std::int64_t StepProfile::gradient_bytes() const {
  return std::accumulate(buckets.begin(), buckets.end(), std::int64_t{0},
                         [](std::int64_t sum, const Bucket& bucket) { return sum + bucket.bytes; });
}

StepProfile measure_step(const config::Config& config, const backend::Platform& platform,
                         const graph::Graph& model, const data::Dataset& dataset, double seconds) {
  StepProfile profile = Steps(config, platform, model, dataset).measure(seconds);
  config::Config smaller = config;
  smaller.train.batch_size = std::max<std::int64_t>(1, config.train.batch_size / 4);
  const StepProfile few = Steps(smaller, platform, model, dataset).measure(seconds / 2);
  if (few.samples == profile.samples) return profile;
  const double each =
      (profile.seconds - few.seconds) / static_cast<double>(profile.samples - few.samples);
  const double constant = profile.seconds - each * static_cast<double>(profile.samples);
  profile.constant = std::clamp(constant, 0.0, profile.seconds);
  return profile;
}

StepProfile make_profile(double step_seconds, const std::string& source,
                         const config::Config& config, const std::vector<model::LayerRow>& layers) {
  const auto is_trained = [](const model::LayerRow& row) { return row.trainable_parameters > 0; };
  const auto first = std::ranges::find_if(layers, is_trained);
  if (first == layers.end()) throw ConfigError({}, "a simulation needs layers that are trained");
  // Work from the start of the step to the end of a layer's backward.
  std::vector<double> done(layers.size());
  double work = 0;
  for (const model::LayerRow& row : layers) work += static_cast<double>(row.flops);
  for (std::size_t i = layers.size(); i-- > static_cast<std::size_t>(first - layers.begin());) {
    work += 2.0 * static_cast<double>(layers[i].flops);
    done[i] = work;
  }
  StepProfile profile;
  profile.samples =
      config.train.batch_size * config.parallel.replicas * config.optimizer.accumulate;
  profile.seconds = step_seconds;
  profile.source = source;
  const double limit = config.parallel.bucket_mb.value_or(engine::kRemoteBucketMb) * (1 << 20);
  for (const LayerBucket& bucket : make_buckets(layers, limit)) {
    const double share = work > 0 ? done[bucket.layer] / work : 1;
    profile.buckets.push_back({bucket.bytes, share * step_seconds});
  }
  return profile;
}

double read_step_seconds(const std::string& path, std::int64_t samples) {
  std::istringstream lines(read_text_file(path));
  double rate = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto found = results::find_in_line<results::LineKeys>(line);
    if (found && std::isfinite(found->images_per_second)) rate = found->images_per_second;
  }
  if (rate <= 0) {
    throw DataError(path,
                    "has no images_per_second: expected the output of trainer benchmark --json or "
                    "trainer train --json");
  }
  return static_cast<double>(samples) / rate;
}

}  // namespace trainer::commands
