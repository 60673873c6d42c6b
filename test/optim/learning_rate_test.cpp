#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config/config.h"
#include "optim/optim.h"
#include "support/source_files.h"

namespace trainer::optim {
namespace {

using config::Duration;

Duration steps(double count) { return {count, Duration::Unit::kSteps}; }
Duration epochs(double count) { return {count, Duration::Unit::kEpochs}; }

LearningRate make(config::ScheduleKind kind, const Length& length,
                  std::optional<config::WarmUp> warm_up = {}) {
  config::Schedule schedule;
  schedule.kind = std::move(kind);
  schedule.warm_up = warm_up;
  return learning_rate(schedule, 0.1, length);
}

const Length kLength{50, 500, 1};

}  // namespace

TEST_CASE("to_steps: steps and epochs become updates, seconds are an error") {
  CHECK(to_steps(steps(30), kLength) == 30);
  CHECK(to_steps(epochs(1.5), kLength) == 75);
  CHECK_THROWS_AS(to_steps({1, Duration::Unit::kSeconds}, kLength), std::logic_error);
}

TEST_CASE("constant: the rate is the same at every step") {
  const auto rate = make(config::ConstantSchedule{}, kLength);
  CHECK(rate(0) == 0.1);
  CHECK(rate(100000) == 0.1);
}

TEST_CASE("step: the rate is multiplied by a factor at each interval") {
  const auto rate = make(config::StepSchedule{epochs(2), 0.5}, kLength);
  CHECK(rate(99) == doctest::Approx(0.1));
  CHECK(rate(100) == doctest::Approx(0.05));
  CHECK(rate(350) == doctest::Approx(0.0125));
}

TEST_CASE("exponential: the rate is smooth, or constant within each interval with staircase") {
  const auto smooth = make(config::ExponentialSchedule{steps(40), 0.7, false}, kLength);
  CHECK(smooth(60) == doctest::Approx(0.1 * std::pow(0.7, 1.5)));
  const auto stairs = make(config::ExponentialSchedule{steps(40), 0.7, true}, kLength);
  CHECK(stairs(79) == doctest::Approx(0.07));
  CHECK(stairs(80) == doctest::Approx(0.049));
}

TEST_CASE("cosine: the rate falls by half a wave and stays at alpha") {
  const auto rate = make(config::CosineSchedule{steps(200), 0.2}, kLength);
  CHECK(rate(0) == doctest::Approx(0.1));
  CHECK(rate(100) == doctest::Approx(0.1 * (0.8 * 0.5 + 0.2)));
  CHECK(rate(200) == doctest::Approx(0.02));
  CHECK(rate(300) == doctest::Approx(0.02));
}

TEST_CASE("cosine: the default length is the whole training without the warm-up") {
  CHECK(make(config::CosineSchedule{}, kLength)(500) == doctest::Approx(0));
  const auto warm = make(config::CosineSchedule{}, kLength, config::WarmUp{steps(100), 0});
  CHECK(warm(300) == doctest::Approx(0.05));
  CHECK(warm(500) == doctest::Approx(0));
}

TEST_CASE("polynomial falls to the end rate and stays there") {
  const auto rate = make(config::PolynomialSchedule{steps(100), 0.01, 2}, kLength);
  CHECK(rate(0) == doctest::Approx(0.1));
  CHECK(rate(50) == doctest::Approx(0.09 * 0.25 + 0.01));
  CHECK(rate(1000) == doctest::Approx(0.01));
}

TEST_CASE("warm_up: the rate rises linearly, and the schedule starts after it") {
  const auto rate =
      make(config::StepSchedule{steps(10), 0.5}, kLength, config::WarmUp{epochs(1), 0.2});
  CHECK(rate(0) == doctest::Approx(0.02));
  CHECK(rate(25) == doctest::Approx(0.06));
  CHECK(rate(50) == doctest::Approx(0.1));
  CHECK(rate(60) == doctest::Approx(0.05));
}

TEST_CASE("ramp_up: by epoch, the rate rises, stays and falls in whole epochs") {
  config::RampUpSchedule s;
  s.sustain_epochs = 2;
  const auto rate = make(s, kLength);
  CHECK(rate(0) == doctest::Approx(1e-5));
  CHECK(rate(49) == doctest::Approx(1e-5));
  CHECK(rate(50) == doctest::Approx(1e-5 + 4e-5 / 5));
  CHECK(rate(5 * 50) == doctest::Approx(5e-5));
  CHECK(rate(7 * 50) == doctest::Approx(5e-5));
  CHECK(rate(8 * 50) == doctest::Approx(4e-5 * 0.8 + 1e-5));
  CHECK(rate(9 * 50 + 3) == doctest::Approx(4e-5 * 0.64 + 1e-5));
}

TEST_CASE("ramp_up: by step, the rate changes within an epoch") {
  config::RampUpSchedule s;
  s.by = config::RampUpSchedule::By::kStep;
  const auto rate = make(s, kLength);
  CHECK(rate(25) == doctest::Approx(1e-5 + 4e-5 / 5 / 2));
  CHECK(rate(300) == doctest::Approx(4e-5 * 0.8 + 1e-5));
}

TEST_CASE(
    "ramp_up: the rate starts at its peak without a warm-up where no epochs of ramp are given") {
  config::RampUpSchedule s;
  s.ramp_epochs = 0;
  const auto rate = make(s, kLength, config::WarmUp{epochs(1), 0});
  CHECK(rate(0) == doctest::Approx(5e-5));
}

TEST_CASE("ramp_up: only the peak is scaled by several replicas") {
  config::RampUpSchedule s;
  s.scale = config::RampUpSchedule::Scale::kLinear;
  const Length four{50, 500, 4};
  CHECK(make(s, four)(0) == doctest::Approx(1e-5));
  CHECK(make(s, four)(250) == doctest::Approx(20e-5));
  CHECK(make(s, four)(300) == doctest::Approx(19e-5 * 0.8 + 1e-5));
  s.scale = config::RampUpSchedule::Scale::kSqrt;
  CHECK(make(s, four)(250) == doctest::Approx(10e-5));
  s.scale = config::RampUpSchedule::Scale::kNone;
  CHECK(make(s, four)(250) == doctest::Approx(5e-5));
}

TEST_CASE("one_cycle: a training of one to four steps has rates above 0 and up to the peak") {
  for (const std::int64_t total : {1, 2, 3, 4}) {
    const auto rate = make(config::OneCycleSchedule{}, {1, total, 1});
    for (std::int64_t i = 0; i <= total; ++i) {
      CAPTURE(total);
      CHECK(rate(i) > 0);
      CHECK(rate(i) <= 0.1);
    }
  }
}

TEST_CASE("one_cycle: the peak is at the first or the last update") {
  config::OneCycleSchedule s;  // from 0.1 / 25 to 0.1, then down to 0.1 / 25 / 1e4
  s.rise = 0.5;
  const auto first = make(s, {1, 2, 1});  // the peak is at 0.5 * 2 - 1
  CHECK(first(0) == doctest::Approx(0.1));
  CHECK(first(1) == doctest::Approx(0.1 / 25 / 1e4));
  s.rise = 1;
  const auto last = make(s, {1, 11, 1});
  CHECK(last(0) == doctest::Approx(0.1 / 25));
  CHECK(last(5) == doctest::Approx((0.1 + 0.1 / 25) / 2));
  CHECK(last(10) == doctest::Approx(0.1));
  CHECK(last(11) == doctest::Approx(0.1 / 25 / 1e4));
}

TEST_CASE("one_cycle: the cycle begins where a warm-up ends") {
  const auto rate =
      make(config::OneCycleSchedule{}, {1, 60, 1}, config::WarmUp{steps(10), 0});  // 50 of its own
  CHECK(rate(9) == doctest::Approx(0.09));
  CHECK(rate(10) == doctest::Approx(0.1 / 25));
  CHECK(rate(24) == doctest::Approx(0.1));  // 0.3 * 50 - 1 updates later
  CHECK(rate(59) == doctest::Approx(0.1 / 25 / 1e4));
}

TEST_CASE("cosine_restarts: every decay begins at its own peak") {
  // Decay i begins after (3^i - 1) / 2 decays of the first length; log(3^5) / log(3) is rounded to
  // below 5.
  config::CosineRestartsSchedule s;
  s.first_decay = steps(1);
  s.t_mul = 3;
  s.m_mul = 0.5;
  const auto rate = make(s, kLength);
  double begin = 0;
  for (int i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(rate(static_cast<std::int64_t>(begin)) == doctest::Approx(0.1 * std::pow(0.5, i)));
    begin += std::pow(3, i);
    CHECK(rate(static_cast<std::int64_t>(begin) - 1) <
          0.1 * std::pow(0.5, i) * (i == 0 ? 1.01 : 0.26));
  }
}

// test/keras/schedules.json: what Keras itself computes, in float32; torch_schedules.json: PyTorch.
TEST_CASE("schedule: the rates are those of Keras and PyTorch over 200 steps") {
  const char* name = "";
  SUBCASE("Keras") { name = "schedules.json"; }
  SUBCASE("PyTorch") { name = "torch_schedules.json"; }
  std::ifstream file(test::source_file("test/keras/") + name);
  REQUIRE(file);
  const auto fixture = nlohmann::json::parse(file);
  const Length length{fixture["steps_per_epoch"].get<double>(),
                      fixture["total_steps"].get<std::int64_t>(), 1};
  REQUIRE(fixture["cases"].size() > 0);
  for (const auto& example : fixture["cases"]) {
    const std::string schedule = example["name"];
    CAPTURE(schedule);
    const std::string text =
        "model: {layers: [flatten, dense: {units: 10}]}\ndata: {format: synthetic}\n"
        "train: {epochs: 1}\nschedule: " +
        example["schedule"].dump() + "\n";
    const auto config = config::parse_config(text, "test.yaml", {}, {}).config;
    const auto rate = learning_rate(config.schedule, fixture["learning_rate"], length);
    const auto& values = example["values"];
    double largest = 0;
    for (const double value : values) largest = std::max(largest, value);
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(i);
      const double expected = values[i];
      const double error = std::abs(rate(static_cast<std::int64_t>(i)) - expected);
      CHECK(error <= 1e-5 * expected + 1e-7 * largest);
    }
  }
}

}  // namespace trainer::optim
