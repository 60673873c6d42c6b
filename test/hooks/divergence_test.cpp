#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/numbers/random.h"
#include "config/config.h"
#include "hooks/support.h"

namespace trainer::hooks {
namespace {

using namespace test;

struct Run {
  explicit Run(bool stops = false, std::int64_t per_epoch = 40) {
    config::Config config;
    config.train.stop_on_divergence = stops;
    hook = make_divergence_hook(config, [this](const std::string& line) { lines.push_back(line); });
    info = run_info("r", 0, 1000);
    info.steps_per_epoch = per_epoch;
    info.classes = {"a", "b"};
    hook->on_start(info);
  }
  void steps_with(std::int64_t count, const std::function<double(std::int64_t)>& loss) {
    for (std::int64_t i = 0; i < count; ++i) {
      StepRecord p = after_step(++step);
      p.loss = loss(step);
      const Request request = hook->on_step(p);  // may throw
      CHECK(request == Request::kContinue);
    }
  }

  std::vector<std::string> lines;
  std::unique_ptr<Hook> hook;
  RunInfo info;
  std::int64_t step = 0;
};

}  // namespace

TEST_CASE(
    "divergence: one warning with remedies follows a loss far above guessing and its lowest "
    "value") {
  Run run;
  run.steps_with(20, [](std::int64_t) { return 0.7; });
  CHECK(run.lines.empty());
  run.steps_with(60, [](std::int64_t) { return 5.0; });
  REQUIRE(run.lines.size() == 1);
  CHECK(run.lines[0].find("over the last 20 steps is 5.000 at step 40") != std::string::npos);
  CHECK(run.lines[0].find("where guessing gives 0.693 and it has been 0.700") != std::string::npos);
  CHECK(run.lines[0].find("a lower learning rate") != std::string::npos);
}

TEST_CASE(
    "divergence: the limit is three times the loss of guessing and three times the lowest loss") {
  const double guessing = std::log(2.0);
  for (const auto& [lowest, then, told] : {std::tuple{0.5, 2.9 * guessing, false},
                                           {0.5, 3.1 * guessing, true},
                                           {1.0, 2.9, false},
                                           {1.0, 3.1, true},
                                           {0.25, 3.1 * guessing, true}}) {
    CAPTURE(lowest);
    CAPTURE(then);
    Run run(false, 1000);
    run.steps_with(20, [&](std::int64_t) { return lowest; });
    run.steps_with(20, [&](std::int64_t) { return then; });
    CHECK(run.lines.size() == (told ? 1 : 0));
  }
  // Twenty steps are compared, not fewer.
  Run few(false, 1000);
  few.steps_with(20, [](std::int64_t) { return 0.5; });
  few.steps_with(19, [](std::int64_t) { return 100.0; });
  CHECK(few.lines.empty());
}

TEST_CASE(
    "divergence: the loss of guessing is larger with large sample weights and gives no warning") {
  for (const double weight : {1.0, 8.0}) {
    Run run;
    run.info.largest_weight = weight;
    run.hook->on_start(run.info);
    run.steps_with(20, [](std::int64_t) { return 0.7; });
    run.steps_with(20, [](std::int64_t) { return 5.0; });
    CHECK(run.lines.size() == (weight == 1 ? 1 : 0));
  }
}

TEST_CASE(
    "divergence: a loss that falls from a high value or is noisy at its end causes no warning") {
  Run falls;
  falls.steps_with(400, [](std::int64_t n) { return 50.0 / static_cast<double>(n); });
  CHECK(falls.lines.empty());
  Run noisy;
  noisy.steps_with(400, [](std::int64_t n) { return n % 2 == 0 ? 1.9 : 0.01; });
  CHECK(noisy.lines.empty());
  Run overfit;  // tiny, and rising through an epoch
  overfit.steps_with(40, [](std::int64_t n) { return 0.001 * static_cast<double>(n); });
  CHECK(overfit.lines.empty());
}

TEST_CASE("divergence: a warning ends an epoch of higher mean loss than the one before") {
  Run run;
  run.steps_with(40, [](std::int64_t) { return 0.6; });
  run.steps_with(39, [](std::int64_t n) { return 0.6 + 0.01 * static_cast<double>(n - 40); });
  CHECK(run.lines.empty());
  run.steps_with(1, [](std::int64_t) { return 1.0; });
  REQUIRE(run.lines.size() == 1);
  CHECK(run.lines[0].find("its mean over the epoch that ends at step 80 is 0.805, and over the "
                          "epoch before it was 0.600") != std::string::npos);
}

TEST_CASE("divergence: short epochs or a rise that the spread of steps explains cause no warning") {
  const auto means = [](double first, double second, double spread, std::int64_t per_epoch) {
    Run run(false, per_epoch);
    run.steps_with(2 * per_epoch, [&](std::int64_t n) {
      return (n <= per_epoch ? first : second) + (n % 2 == 0 ? spread : -spread);
    });
    return run.lines.size();
  };
  CHECK(means(0.6, 0.8, 0, 31) == 0);
  CHECK(means(0.6, 0.8, 0, 32) == 1);
  // The rise is a tenth.
  CHECK(means(1.0, 1.09, 0, 40) == 0);
  CHECK(means(1.0, 1.11, 0, 40) == 1);
  // The standard error of the difference is the spread times the square root of 2 / 39.
  CHECK(means(1.0, 1.5, 0.31, 40) == 1);
  CHECK(means(1.0, 1.5, 0.33, 40) == 0);
  // A run that is resumed within an epoch compares the steps that it has made.
  Run resumed(false, 40);
  resumed.step = 25;
  resumed.steps_with(15, [](std::int64_t) { return 0.6; });
  resumed.steps_with(80, [](std::int64_t n) { return n <= 80 ? 0.9 : 0.91; });
  CHECK(resumed.lines.empty());
}

namespace {

// The losses of the steps of 30 epochs are a function of the epochs done, times 1 + spread * noise.
struct Drawn {
  std::int64_t per_epoch;
  double spread;
  double correlation;  // of the noise of two successive steps
};

std::size_t count_warnings(const Drawn& losses, std::uint64_t seed,
                           const std::function<double(double)>& trend) {
  Run run(false, losses.per_epoch);
  const double own_share = std::sqrt(1 - losses.correlation * losses.correlation);
  Random random(seed, Stream::kSynthetic);
  double noise = 0;
  run.steps_with(30 * losses.per_epoch, [&](std::int64_t n) {
    double drawn = -6;
    for (int i = 0; i < 12; ++i) drawn += static_cast<double>(random.uniform());
    noise = losses.correlation * noise + own_share * drawn;
    const double epochs = static_cast<double>(n - 1) / static_cast<double>(losses.per_epoch);
    return std::max(0.0, trend(epochs) * (1 + losses.spread * noise));
  });
  return run.lines.size();
}

}  // namespace

TEST_CASE(
    "divergence: drawn losses that are noise or fall cause a warning in at most 1 of 100 runs") {
  const std::vector<std::function<double(double)>> trends = {
      [](double) { return 0.69; }, [](double epochs) { return 0.64 - 0.002 * epochs; },
      [](double epochs) { return 0.3 + std::exp(-epochs); }};
  for (const double spread : {0.1, 0.4}) {
    for (const double correlation : {0.0, 0.5}) {
      for (const auto& trend : trends) {
        std::size_t warned = 0;
        for (std::uint64_t seed = 0; seed < 100; ++seed) {
          warned += count_warnings({36, spread, correlation}, seed, trend);
        }
        CAPTURE(spread);
        CAPTURE(correlation);
        CHECK(warned <= 1);
      }
    }
  }
}

TEST_CASE("divergence: drawn losses that rise over a few epochs cause a warning in every run") {
  for (const double spread : {0.05, 0.2}) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      CAPTURE(spread);
      CAPTURE(seed);
      CHECK(count_warnings({100, spread, 0}, seed, [](double epochs) {
              return 0.6 + std::clamp(0.4 * (epochs - 10), 0.0, 1.2);
            }) == 1);
    }
  }
}

TEST_CASE("divergence: the run ends with CheckError for stop_on_divergence") {
  Run run(true);
  run.steps_with(20, [](std::int64_t) { return 0.7; });
  CHECK_THROWS_WITH_AS(run.steps_with(20, [](std::int64_t) { return 9.0; }),
                       doctest::Contains("train.stop_on_divergence"), CheckError);
}

TEST_CASE("divergence: the state of the hook is restored by a resume") {
  Run run;
  run.steps_with(20, [](std::int64_t) { return 0.7; });
  Run next;
  next.hook->restore(run.hook->save());
  next.steps_with(20, [](std::int64_t) { return 5.0; });
  CHECK(next.lines.size() == 1);
  Run told;
  told.hook->restore(next.hook->save());
  told.steps_with(20, [](std::int64_t) { return 5.0; });
  CHECK(told.lines.empty());
  for (const char* text : {"", "x 0", "nan 0", "-1 0", "1.0", "1.0 2"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(told.hook->restore(text), doctest::Contains("expected a loss and 0 or 1"),
                         DataError);
  }
}

}  // namespace trainer::hooks
