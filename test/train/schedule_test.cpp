#include "train/schedule/schedule.h"

#include <doctest/doctest.h>

#include "support/model.h"

namespace trainer::train {
namespace {

Schedule make_schedule(const std::string& run, const std::string& unfreeze = "") {
  config::Config config = trainer::test::build_config(
      unfreeze.empty() ? "{layers: [flatten, dense: 2]}"
                       : "{backbone: {name: mobilenet_v2, unfreeze: [" + unfreeze +
                             "]}, head: [flatten, dense: 2]}",
      "run: " + run + "\n");
  config.train.batch_size = 4;
  config.train.epochs = 3;
  const TrainingPlan plan = plan_steps(config, 20);  // 5 steps per epoch, 15 in all
  return Schedule(config.run, plan, Stages(config, plan));
}

std::vector<std::int64_t> boundaries(const Schedule& schedule) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 1; step <= 16; ++step) {
    if (schedule.is_boundary(step)) steps.push_back(step);
  }
  return steps;
}

}  // namespace

TEST_CASE("schedule: steps, epochs, stages and the end are known ahead, and seconds are not") {
  CHECK(boundaries(make_schedule("{evaluate_every: 1 epochs, checkpoint_every: 4 steps}")) ==
        std::vector<std::int64_t>{4, 5, 8, 10, 12, 15, 16});
  CHECK(boundaries(make_schedule("{evaluate_every: 1 seconds, checkpoint_every: 9 epochs}")) ==
        std::vector<std::int64_t>{15, 16});
  CHECK(boundaries(make_schedule("{evaluate_every: 9 epochs, checkpoint_every: 9 epochs}",
                                 "{at: 7 steps, freeze: none}, {at: 2 epochs, freeze: all}")) ==
        std::vector<std::int64_t>{7, 10, 15, 16});
}

TEST_CASE("schedule: is_boundary() holds for exactly the steps that due() reports") {
  Schedule schedule = make_schedule("{evaluate_every: 0.3 epochs, checkpoint_every: 4 steps}");
  const Schedule ahead = schedule;
  for (std::int64_t step = 1; step < 15; ++step) {
    CAPTURE(step);
    const DueActions due = schedule.due(step, 0);
    CHECK((due.evaluate || due.save) == ahead.is_boundary(step));
    CHECK(due.save == (step % 4 == 0));
    CHECK_FALSE(due.interrupted);
  }
}

TEST_CASE("schedule: an interval in seconds counts from the last time it was due") {
  Schedule schedule = make_schedule("{evaluate_every: 10 seconds, checkpoint_every: 25 seconds}");
  std::vector<std::int64_t> evaluations, saves;
  std::int64_t step = 0;
  for (const double elapsed : {9.9, 10.0, 19.0, 20.5, 25.0, 30.4, 49.0, 50.0}) {
    const DueActions due = schedule.due(++step, elapsed);
    if (due.evaluate) evaluations.push_back(step);
    if (due.save) saves.push_back(step);
  }
  CHECK(evaluations == std::vector<std::int64_t>{2, 4, 7});
  CHECK(saves == std::vector<std::int64_t>{5, 8});
}

}  // namespace trainer::train
