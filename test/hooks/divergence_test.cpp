#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>

#include "base/error.h"
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
      Progress p = after_step(++step);
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
    "divergence: a loss far above that of guessing and its lowest value, one warning with "
    "remedies") {
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

TEST_CASE("divergence: large sample weights, the loss of guessing is larger and gives no warning") {
  for (const double weight : {1.0, 8.0}) {
    Run run;
    run.info.largest_weight = weight;
    run.hook->on_start(run.info);
    run.steps_with(20, [](std::int64_t) { return 0.7; });
    run.steps_with(20, [](std::int64_t) { return 5.0; });
    CHECK(run.lines.size() == (weight == 1 ? 1 : 0));
  }
}

TEST_CASE("divergence: a loss that falls from a high value or is noisy at its end, no warning") {
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

TEST_CASE("divergence: a loss that rises through an epoch, a warning at its end") {
  Run run;
  run.steps_with(40, [](std::int64_t) { return 0.6; });
  run.steps_with(39, [](std::int64_t n) { return 0.6 + 0.01 * static_cast<double>(n - 40); });
  CHECK(run.lines.empty());
  run.steps_with(1, [](std::int64_t) { return 1.0; });
  REQUIRE(run.lines.size() == 1);
  CHECK(run.lines[0].find("rose through the whole epoch that ends at step 80") !=
        std::string::npos);
}

TEST_CASE(
    "divergence: short or partial epochs or a loss that does not rise throughout, no warning") {
  const auto rising = [](std::int64_t n) { return 0.6 + 0.02 * static_cast<double>(n % 40); };
  Run short_epochs(false, 31);
  short_epochs.steps_with(31, rising);
  CHECK(short_epochs.lines.empty());
  Run long_enough(false, 32);
  long_enough.steps_with(32, rising);
  CHECK(long_enough.lines.size() == 1);
  Run resumed;  // within the epoch
  resumed.step = 15;
  resumed.steps_with(25, rising);
  CHECK(resumed.lines.empty());
  // Quarters of 10 steps: one falls, or the last is hardly above the first.
  for (const auto& means : {std::array{0.6, 0.9, 0.7, 0.8}, std::array{0.6, 0.61, 0.62, 0.63},
                            std::array{10.0, 10.5, 10.75, 11.0}}) {
    Run run;
    run.steps_with(40, [&](std::int64_t n) { return means[static_cast<std::size_t>(n - 1) / 10]; });
    CHECK(run.lines.empty());
  }
}

TEST_CASE("divergence: stop_on_divergence, the run ends with CheckError") {
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
