// Divides a run into steps. No other code does so.
// Reasons: lib/decisions/train.md#the-step-is-the-only-counter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/data.h"
#include "optim/optim.h"

namespace trainer::train {

// A step is one update of the parameters, from `accumulate` batches; it never spans two epochs, so
// that the last step of an epoch may have fewer batches and a short last one.
struct TrainingPlan {
  std::int64_t samples = 0;  // of the training split
  std::int64_t replicas = 1;
  std::int64_t batch = 1;  // of all replicas together
  // How often an epoch uses each sample. With parallel.shard: off every replica goes through all
  // samples, so that it is the number of replicas. Otherwise 1.
  std::int64_t repetitions = 1;
  std::int64_t accumulate = 1;
  std::int64_t batches_per_epoch = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;

  // Batches [first, first + count) of the whole run that make up a step.
  struct Batches {
    std::int64_t first, count;
  };
  Batches batches(std::int64_t step) const;
  // Samples of a batch of the whole run, of all replicas together.
  std::int64_t samples_of_batch(std::int64_t number) const;
  // Samples of a step: the true number that its gradient is divided by.
  std::int64_t samples_of(std::int64_t step) const;
  double epoch(std::int64_t steps_done) const {
    return static_cast<double>(steps_done) / static_cast<double>(steps_per_epoch);
  }
};

// The steps in `units` epochs of `steps` steps each, rounded up, except for rounding errors of the
// product.
std::int64_t steps_in(double units, std::int64_t steps);

// `workers`: processes that train together, each with the config's replicas.
TrainingPlan plan_steps(const config::Config& config, std::int64_t samples,
                        std::int64_t workers = 1);

// The optimizer's learning rate, scaled by parallel.lr_scaling.
struct ScaledRate {
  double optimizer = 0;  // as the config gives it
  double factor = 1;
  double effective() const { return optimizer * factor; }
  std::string text() const;  // "0.001 x 2 (linear) = 0.002"
  std::string scaling;       // none, linear, sqrt
};
ScaledRate scaled_rate(const config::Config& config, std::int64_t replicas);

// The learning rate of every update: the optimizer's, scaled by the number of replicas, through the
// schedule.
optim::LearningRate learning_rate(const config::Config& config, const TrainingPlan& plan);

}  // namespace trainer::train
