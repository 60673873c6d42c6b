#include "train/schedule/training_plan.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace trainer;
using namespace trainer::train;

namespace {

config::Config config_with(std::int64_t batch, std::int64_t accumulate) {
  config::Config config;
  config.train.batch_size = batch;
  config.train.epochs = 2;
  config.optimizer.accumulate = accumulate;
  return config;
}

}  // namespace

TEST_CASE(
    "training plan: every sample of an epoch is in exactly one step, with short batches and "
    "steps") {
  for (const std::int64_t samples : {1, 7, 8, 9, 100, 101}) {
    for (const std::int64_t accumulate : {1, 2, 3}) {
      const train::TrainingPlan plan = train::plan_steps(config_with(8, accumulate), samples);
      CHECK(plan.total_steps == 2 * plan.steps_per_epoch);
      std::int64_t next = 0;
      for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
        std::int64_t seen = 0;
        for (std::int64_t i = 0; i < plan.steps_per_epoch; ++i) {
          const std::int64_t step = epoch * plan.steps_per_epoch + i;
          CHECK(plan.batches(step).first == next);
          next += plan.batches(step).count;
          seen += plan.count_samples(step);
        }
        CHECK(seen == samples);
      }
    }
  }
}

TEST_CASE(
    "training plan: max_steps is kept, fractional epochs are rounded up, no samples are an error") {
  config::Config config = config_with(8, 1);
  config.train.epochs = 0.5;
  CHECK(train::plan_steps(config, 36).total_steps == 3);
  config.train.epochs.reset();
  config.train.max_steps = 17;
  CHECK(train::plan_steps(config, 36).total_steps == 17);
  CHECK_THROWS_AS(train::plan_steps(config, 0), ConfigError);
}

TEST_CASE("training plan: drop_remainder makes epochs of whole batches only") {
  for (const std::int64_t samples : {8, 9, 15, 16, 100, 101}) {
    for (const std::int64_t accumulate : {1, 2, 3}) {
      CAPTURE(samples);
      config::Config config = config_with(8, accumulate);
      config.data.drop_remainder = true;
      const train::TrainingPlan plan = train::plan_steps(config, samples);
      CHECK(plan.batches_per_epoch == samples / 8);
      CHECK(plan.steps_per_epoch == (samples / 8 + accumulate - 1) / accumulate);
      CHECK(plan.total_steps == 2 * plan.steps_per_epoch);
      CHECK(plan.samples == samples / 8 * 8);
      CHECK(plan.left_out == samples % 8);
      std::int64_t seen = 0;
      for (std::int64_t step = 0; step < plan.total_steps; ++step) {
        const auto batches = plan.batches(step);
        for (std::int64_t i = 0; i < batches.count; ++i) {
          CHECK(plan.count_batch_samples(batches.first + i) == 8);
        }
        seen += plan.count_samples(step);
      }
      CHECK(seen == 2 * plan.samples);
      // The samples that are used make the same plan.
      CHECK(train::plan_steps(config, plan.samples).total_steps == plan.total_steps);
    }
  }
}

TEST_CASE(
    "training plan: drop_remainder counts the batch of all replicas and workers, or of one "
    "unsharded") {
  config::Config config = config_with(8, 1);
  config.data.drop_remainder = true;
  config.parallel.replicas = 2;
  const train::TrainingPlan plan = train::plan_steps(config, 100, 3);
  CHECK(plan.batches_per_epoch == 2);  // of 48
  CHECK(plan.left_out == 4);
  CHECK(plan.count_samples(1) == 48);
  config.parallel.shard = config::Parallel::Shard::kOff;
  const train::TrainingPlan repeated = train::plan_steps(config, 100, 3);
  CHECK(repeated.batches_per_epoch == 12);  // of 8 for each of six replicas
  CHECK(repeated.left_out == 4);
  CHECK(repeated.count_samples(11) == 48);
}

TEST_CASE("training plan: the error of drop_remainder without a whole batch names the batch") {
  config::Config config = config_with(8, 1);
  CHECK_NOTHROW(train::plan_steps(config, 7));
  config.data.drop_remainder = true;
  CHECK_THROWS_WITH_AS(train::plan_steps(config, 7),
                       doctest::Contains("data.drop_remainder: leaves out all training samples, "
                                         "because 7 samples do not fill a batch of 8; lower "
                                         "train.batch_size, or remove drop_remainder"),
                       ConfigError);
  config.parallel.replicas = 2;
  CHECK_THROWS_WITH_AS(train::plan_steps(config, 15),
                       doctest::Contains("a batch of 16 (2 replicas of 8)"), ConfigError);
}

TEST_CASE("training plan: the learning rate falls over the steps that drop_remainder leaves") {
  config::Config config = config_with(8, 1);
  config.optimizer.kind = config::Sgd{};
  config.schedule.kind = config::CosineSchedule{};
  config.data.drop_remainder = true;
  const train::TrainingPlan plan = train::plan_steps(config, 47);
  REQUIRE(plan.total_steps == 10);  // 12 with the short batches
  const train::TrainingPlan whole = train::plan_steps(config, 40);
  for (std::int64_t step = 0; step < 10; ++step) {
    CHECK(learning_rate(config, plan)(step) == learning_rate(config, whole)(step));
  }
}

TEST_CASE("training plan: several replicas have the global batch and the scaled learning rate") {
  using Scaling = config::Parallel::LrScaling;
  config::Config config = config_with(8, 2);
  config.optimizer.kind = config::Sgd{};
  config.parallel.replicas = 4;
  const train::TrainingPlan plan = train::plan_steps(config, 100);
  CHECK(plan.replicas == 4);
  CHECK(plan.batch == 32);
  CHECK(plan.batches_per_epoch == 4);
  CHECK(plan.steps_per_epoch == 2);
  CHECK(train::plan_steps(config, 100, 3).batch == 96);
  const double base = optim::update_spec(config.optimizer).learning_rate;
  for (const auto& [scaling, factor] :
       {std::pair{Scaling::kNone, 1.0}, std::pair{Scaling::kLinear, 4.0},
        std::pair{Scaling::kSqrt, 2.0}}) {
    config.parallel.lr_scaling = scaling;
    CHECK(learning_rate(config, plan)(1) == doctest::Approx(base * factor));
    CHECK(train::scaled_rate(config, 4).effective() == doctest::Approx(base * factor));
  }
  CHECK(train::scaled_rate(config, 4).text() == "0.01 x 2 (sqrt) = 0.02");
  // ramp_up scales its own peak.
  config.parallel.lr_scaling = Scaling::kNone;
  config::RampUpSchedule ramp_up;
  ramp_up.ramp_epochs = 0;
  ramp_up.sustain_epochs = 1;
  ramp_up.scale = config::RampUpSchedule::Scale::kLinear;
  config.schedule.kind = ramp_up;
  CHECK(learning_rate(config, plan)(0) == doctest::Approx(4 * ramp_up.peak));
}

TEST_CASE("training plan: every replica reads all samples in an epoch without sharding") {
  config::Config config = config_with(8, 2);
  config.parallel.replicas = 2;
  config.parallel.shard = config::Parallel::Shard::kOff;
  const train::TrainingPlan plan = train::plan_steps(config, 100, 3);
  CHECK(plan.passes_per_epoch == 6);
  CHECK(plan.batch == 48);
  CHECK(plan.batches_per_epoch == 13);  // as of one replica: 12 of 8, one of 4
  CHECK(plan.steps_per_epoch == 7);
  CHECK(plan.count_samples(0) == 96);
  CHECK(plan.count_samples(6) == 24);
  std::int64_t samples = 0;
  for (std::int64_t step = 0; step < 7; ++step) samples += plan.count_samples(step);
  CHECK(samples == 600);
}
