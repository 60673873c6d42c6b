// Divides a run into steps. No other code does so.
// Reasons: lib/decisions/train.md#a-run-is-a-function-of-the-step.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"
#include "data/samples/sampler.h"
#include "optim/optim.h"

namespace trainer::train {

// A step is one update of the parameters from `accumulate` batches. It never spans two epochs, so
// that the last step of an epoch may have fewer batches, and its last batch may be short unless
// data.drop_remainder is set.
struct TrainingPlan {
  std::int64_t samples = 0;   // the samples that an epoch uses of the training split
  std::int64_t left_out = 0;  // the others, which data.drop_remainder leaves out
  std::int64_t replicas = 1;
  std::int64_t batch = 1;  // samples of all replicas together
  // How often an epoch uses each sample: 1, or with parallel.shard: off the number of replicas,
  // since every replica goes through all samples.
  std::int64_t passes_per_epoch = 1;
  std::int64_t accumulate = 1;
  std::int64_t batches_per_epoch = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;

  // The batches [first, first + count) of the whole run that make up a step.
  struct Batches {
    std::int64_t first, count;
  };
  Batches batches(std::int64_t step) const;
  // Returns the samples of a batch of the whole run, of all replicas together.
  std::int64_t count_batch_samples(std::int64_t number) const;
  // Returns the samples of a step, by whose true number its gradient is divided.
  std::int64_t count_samples(std::int64_t step) const;
  double epoch(std::int64_t steps_done) const {
    return static_cast<double>(steps_done) / static_cast<double>(steps_per_epoch);
  }
};

// Returns the steps in `units` epochs of `steps` steps each, rounded up, except for rounding errors
// of the product.
std::int64_t steps_in(double units, std::int64_t steps);

// Plans the steps of a run. `workers` is the number of processes that train together, each with the
// config's replicas. Throws ConfigError if there is no sample, or no whole batch with
// data.drop_remainder.
TrainingPlan plan_steps(const config::Config& config, std::int64_t samples,
                        std::int64_t workers = 1);

// The optimizer's learning rate, scaled by parallel.lr_scaling.
struct ScaledRate {
  double optimizer = 0;  // the rate in the config
  double factor = 1;
  double effective() const { return optimizer * factor; }
  std::string text() const;  // "0.001 x 2 (linear) = 0.002"
  std::string scaling;       // none, linear, sqrt
};
ScaledRate scaled_rate(const config::Config& config, std::int64_t replicas);

// Returns the learning rate of every update: the optimizer's rate, scaled by the number of
// replicas, and changed by the schedule.
optim::LearningRate learning_rate(const config::Config& config, const TrainingPlan& plan);

}  // namespace trainer::train
