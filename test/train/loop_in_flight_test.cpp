// The order in which the loop launches steps and reads their numbers, with three steps in flight
// that compute nothing.
#include <doctest/doctest.h>

#include <deque>

#include "support.h"

namespace trainer::train {
namespace {

using namespace support;

class ThreeInFlight final : public Steps {
 public:
  ThreeInFlight(Events& events, std::int64_t not_finite_at)
      : events_(events), not_finite_at_(not_finite_at) {}

  void open_feed(FeatureCaches&) override { events_.push_back("open"); }
  void close_feed() override { events_.push_back("close"); }
  double seconds_waited() const override { return 0; }
  double read_seconds() const override { return 0; }
  std::string describe_feed() const override { return "three in flight"; }
  int max_in_flight() const override { return 3; }
  bool launch(std::int64_t step) override {
    events_.push_back(concat("launch ", step + 1));
    launched_.push_back(step + 1);
    return true;
  }
  std::optional<StepOutcome> result() override {
    StepOutcome outcome;
    outcome.record.step = launched_.front();
    outcome.record.samples = 4;
    launched_.pop_front();
    if (outcome.record.step == not_finite_at_) {
      outcome.not_finite = NotFinite{"dense", "all", 0.5};
    }
    return outcome;
  }

 private:
  Events& events_;
  std::int64_t not_finite_at_;  // number of the step, from 1
  std::deque<std::int64_t> launched_;
};

hooks::Finish run_three_in_flight(Trial& trial, std::int64_t not_finite_at = -1) {
  trial.make_steps = [&trial, not_finite_at](RunContext&) {
    return std::make_unique<ThreeInFlight>(trial.events, not_finite_at);
  };
  return trial.run();
}

}  // namespace

TEST_CASE("in flight: steps are launched ahead up to the limit of Steps") {
  Trial trial(run_config());
  run_three_in_flight(trial);
  CHECK(trial.events == Events{"start 0", "save 0", "open", "launch 1", "launch 2", "launch 3",
                               "step 1", "launch 4", "step 2", "launch 5", "step 3", "launch 6",
                               "step 4", "step 5", "step 6", "close", "save 6", "finish done"});
}

TEST_CASE("in flight: no step is launched beyond one where an evaluation or checkpoint is due") {
  Trial trial(run_config("run: {evaluate_every: 2 steps, checkpoint_every: 3 steps}\n"));
  trial.add_split(Split::kValidation);
  run_three_in_flight(trial);
  CHECK(trial.events ==
        Events{"start 0", "save 0",       "open",         "launch 1",   "launch 2", "step 1",
               "step 2",  "validation 2", "launch 3",     "step 3",     "save 3",   "launch 4",
               "step 4",  "validation 4", "launch 5",     "launch 6",   "step 5",   "step 6",
               "save 6",  "close",        "validation 6", "finish done"});
}

TEST_CASE("in flight: no step is launched beyond the end of a stage") {
  Trial trial(run_config("", "{layers: [flatten, dense: {units: 2}]}"));
  trial.config.model = trainer::test::build_config(
                           "{backbone: {name: mobilenet_v2, alpha: 0.35, freeze: all, "
                           "unfreeze: [{at: 2 steps, freeze: none}]}, head: [flatten, dense: 2]}")
                           .model;
  trial.config.train.cache_features = config::CacheFeatures::kOff;
  trial.data.image_shape = Shape({32, 32, 3});
  trial.data.image_type = DType::kUInt8;
  run_three_in_flight(trial);
  CHECK(trial.events == Events{"start 0",  "save 0",   "open",   "launch 1", "launch 2",
                               "step 1",   "step 2",   "close",  "open",     "launch 3",
                               "launch 4", "launch 5", "step 3", "launch 6", "step 4",
                               "step 5",   "step 6",   "close",  "save 6",   "finish done"});
}

TEST_CASE("in flight: a request of a hook is done when no step is in flight") {
  Trial trial(run_config());
  trial.at_step = [](std::int64_t step) { return step == 2 ? Request::kStop : Request::kContinue; };
  CHECK(run_three_in_flight(trial).steps == 4);
  CHECK(trial.events == Events{"start 0", "save 0", "open", "launch 1", "launch 2", "launch 3",
                               "step 1", "launch 4", "step 2", "step 3", "step 4", "save 4",
                               "close", "finish early stop"});
}

TEST_CASE("in flight: no further step is launched after a signal") {
  Trial trial(run_config());
  trial.at_step = [](std::int64_t step) {
    if (step == 2) std::raise(SIGUSR1);
    return Request::kContinue;
  };
  CHECK(run_three_in_flight(trial).reason == FinishReason::kInterrupted);
  CHECK(trial.events == Events{"start 0", "save 0", "open", "launch 1", "launch 2", "launch 3",
                               "step 1", "launch 4", "step 2", "step 3", "step 4", "save 4",
                               "close", "finish interrupted"});
}

TEST_CASE("in flight: the action of an interval in seconds is done when no step is in flight") {
  Trial trial(run_config("run: {checkpoint_every: 15 seconds, evaluate_every: 1000 steps}\n"));
  trial.at_step = [&](std::int64_t) {
    trial.seconds += 10;
    return Request::kContinue;
  };
  run_three_in_flight(trial);
  CHECK(trial.events == Events{"start 0", "save 0", "open", "launch 1", "launch 2", "launch 3",
                               "step 1", "launch 4", "step 2", "launch 5", "step 3", "step 4",
                               "step 5", "save 5", "launch 6", "step 6", "close", "save 6",
                               "finish done"});
}

TEST_CASE("in flight: the run ends with the steps before one that is not finite") {
  Trial trial(run_config());
  CHECK_THROWS_WITH_AS(run_three_in_flight(trial, 3),
                       doctest::Contains("the loss is not finite at step 3 (epoch 1, learning rate "
                                         "0.5): first seen in dense, all. The parameters were not"),
                       CheckError);
  CHECK(trial.count("step 2") == 1);
  CHECK(trial.count("step 3") == 0);
}

}  // namespace trainer::train
