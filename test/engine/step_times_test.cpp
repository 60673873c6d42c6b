#include "engine/step_times.h"

#include <doctest/doctest.h>

namespace trainer::engine {
namespace {

// A rank's step of one second: 0.1 waiting for data, 0.2 forward, `backward`, and the rest in sums
// over ranks, but for 0.1 of the update.
RankTimes rank_of(double backward) {
  backend::PhaseTimes device;
  device.measured = true;
  device.forward = 0.2;
  device.backward = backward;
  device.update = 0.1;
  device.all_reduce = 0.6 - backward;
  device.all_reduce_hidden = 0.05;
  return rank_times(1.0, 0.1, device);
}

}  // namespace

TEST_CASE("step times: the step of a rank is the sum of its phases, without overlapped work") {
  backend::PhaseTimes device;
  device.copy = 0.01;
  device.forward = 0.2;
  device.backward = 0.4;
  device.all_reduce = 0.1;
  device.all_reduce_hidden = 0.3;
  device.update = 0.05;
  const RankTimes times = rank_times(1.0, 0.125, device);
  CHECK(times[StepPhase::kDataWait] == 0.125);
  CHECK(times[StepPhase::kAllReduceHidden] == 0.3);
  CHECK(times[StepPhase::kOther] == doctest::Approx(0.115));
  CHECK(times.total() == doctest::Approx(1.0));
  CHECK(times.own() == doctest::Approx(0.9));
  // A device may be at work for longer than the host's step: nothing is negative.
  CHECK(rank_times(0.5, 0.125, device)[StepPhase::kOther] == 0);
}

TEST_CASE("StepTimes has means over steps, and minimum, median and maximum over ranks") {
  StepTimes times;
  CHECK(times.empty());
  CHECK(times.spread(StepPhase::kBackward).max == 0);
  CHECK(times.share(StepPhase::kBackward) == 0);
  times.add(std::span<const RankTimes>());
  CHECK(times.empty());
  const RankTimes first[] = {rank_of(0.1), rank_of(0.2), rank_of(0.45)};
  const RankTimes second[] = {rank_of(0.3), rank_of(0.2), rank_of(0.45)};
  times.add(first);
  times.add(second);
  CHECK(times.steps() == 2);
  CHECK(times.ranks() == 3);
  CHECK(times.mean_times(0)[StepPhase::kBackward] == doctest::Approx(0.2));
  const StepTimes::Spread spread = times.spread(StepPhase::kBackward);
  CHECK(spread.min == doctest::Approx(0.2));
  CHECK(spread.median == doctest::Approx(0.2));
  CHECK(spread.max == doctest::Approx(0.45));
  CHECK(times.share(StepPhase::kBackward) == doctest::Approx(0.85 / 3));
  CHECK(times.share(StepPhase::kAllReduceHidden) == doctest::Approx(0.05));
  // Adds as many steps again, by their means.
  StepTimes both = times;
  both.add(times);
  CHECK(both.steps() == 4);
  CHECK(both.mean_times(0)[StepPhase::kBackward] == doctest::Approx(0.2));
  // Adds a step of another number of ranks.
  const RankTimes alone[] = {rank_of(0.5)};
  both.add(alone);
  CHECK(both.ranks() == 1);
  CHECK(both.steps() == 1);
}

TEST_CASE("StepTimes::straggler finds a rank whose own time is far above that of the others") {
  const auto straggler = [](std::vector<double> backward) {
    std::vector<RankTimes> ranks;
    for (const double seconds : backward) ranks.push_back(rank_of(seconds));
    StepTimes times;
    times.add(ranks);
    return times.straggler();
  };
  CHECK_FALSE(StepTimes().straggler());
  CHECK_FALSE(straggler({0.5}));
  CHECK_FALSE(straggler({0.3, 0.3}));
  CHECK_FALSE(straggler({0.3, 0.45}));  // 0.85 against 0.7: too little
  const auto second = straggler({0.1, 0.5, 0.15});
  REQUIRE(second);
  CHECK(second->rank == 1);
  CHECK(second->phase == StepPhase::kBackward);
  CHECK(second->seconds == doctest::Approx(0.9));
  CHECK(second->others == doctest::Approx(0.525));
  CHECK(
      describe(*second, {"rank 0 (a)", "rank 1 (b)", "rank 2 (c)"}) ==
      "straggler: rank 1 (b) takes 900.00 ms per step of its own, the others 525.00; it loses most "
      "in backward");
  Straggler starting = *second;
  starting.phase = StepPhase::kOther;
  CHECK(describe(starting, {}) ==
        "straggler: rank 1 takes 900.00 ms per step of its own, the others 525.00; it loses most "
        "outside the phases that are timed");
  // What is lost must matter in the step.
  const auto of_two = [](double seconds) {
    backend::PhaseTimes device;
    device.all_reduce = 1 - seconds;
    device.forward = 0.01;
    StepTimes times;
    const RankTimes ranks[] = {rank_times(1, 0, device), {}};
    times.add(ranks);
    return times;
  };
  CHECK_FALSE(of_two(0.04).straggler());
  CHECK(of_two(0.06).straggler());
  // The median of two ranks is the other one.
  REQUIRE(straggler({0.5, 0.1}));
  CHECK(straggler({0.5, 0.1})->rank == 0);
}

TEST_CASE("StepTimes::straggler finds a rank that waits for data") {
  backend::PhaseTimes device;
  device.forward = 0.1;
  device.all_reduce = 0.7;
  backend::PhaseTimes last = device;
  last.all_reduce = 0;
  const RankTimes ranks[] = {rank_times(1, 0.05, device), rank_times(1, 0.75, last)};
  StepTimes times;
  times.add(ranks);
  const auto straggler = times.straggler();
  REQUIRE(straggler);
  CHECK(straggler->rank == 1);
  CHECK(straggler->phase == StepPhase::kDataWait);
}

TEST_CASE("describe prints step times, and phases that took time with their range over ranks") {
  const RankTimes one[] = {rank_of(0.5)};
  StepTimes times;
  times.add(one);
  CHECK(describe(times) ==
        "data wait 100, forward 200, backward 500, all-reduce 100, hidden all-reduce 50.00, update "
        "100 ms");
  backend::PhaseTimes fast;
  fast.forward = 0.0015;
  backend::PhaseTimes slow;
  slow.forward = 0.0025;
  const RankTimes two[] = {rank_times(0.0015, 0, fast), rank_times(0.0025, 0, slow)};
  times.add(two);
  CHECK(describe(times) == "forward 2.00 (1.50-2.50) ms");
  CHECK(column_name(StepPhase::kAllReduceHidden) == "hidden_all_reduce_seconds");
}

}  // namespace trainer::engine
