#include <doctest/doctest.h>

#include <limits>

#include "base/error.h"
#include "config/sections/train.h"
#include "hooks/support.h"

namespace trainer::hooks {
namespace {

using namespace test;

config::EarlyStop options(const std::string& metric, std::int64_t patience, double min_delta = 0) {
  config::EarlyStop early_stop;
  early_stop.metric = metric;
  early_stop.patience = patience;
  early_stop.min_delta = min_delta;
  return early_stop;
}

// The evaluation, from 1, after which it stops; 0 if never.
std::size_t stops_after(Hook& hook, const std::vector<double>& losses, std::size_t first = 1) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto step = static_cast<std::int64_t>(first + i);
    if (hook.on_evaluation(evaluation(Split::kValidation, step, losses[i])) == Request::kStop)
      return i + 1;
  }
  return 0;
}

}  // namespace

TEST_CASE("early stop: patience counts evaluations without improvement") {
  const std::vector<double> losses{1.0, 0.8, 0.9, 0.8, 0.7, 0.71, 0.72, 0.73};
  CHECK(stops_after(*make_early_stop_hook(options("validation/loss", 1)), losses) == 3);
  CHECK(stops_after(*make_early_stop_hook(options("validation/loss", 2)), losses) == 4);
  CHECK(stops_after(*make_early_stop_hook(options("validation/loss", 3)), losses) == 8);
  CHECK(stops_after(*make_early_stop_hook(options("validation/loss", 4)), losses) == 0);
  CHECK(stops_after(*make_early_stop_hook(options("validation/loss", 2, 0.25)), losses) == 3);
  CHECK(stops_after(*make_early_stop_hook(options("test/loss", 1)), losses) == 0);
}

TEST_CASE("early stop: accuracy must rise, loss must fall") {
  const auto hook = make_early_stop_hook(options("validation/accuracy", 1));
  Evaluation e = evaluation(Split::kValidation, 1, 1);
  for (const double accuracy : {0.5, 0.6, 0.7}) {
    ++e.step;
    e.metrics.accuracy = accuracy;
    CHECK(hook->on_evaluation(e) == Request::kContinue);
  }
  ++e.step;
  e.metrics.accuracy = 0.6;
  CHECK(hook->on_evaluation(e) == Request::kStop);
}

TEST_CASE("early stop: NaN is neither an improvement nor the best value") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto stop_at = [&](const std::vector<double>& losses) {
    return stops_after(*make_early_stop_hook(options("validation/loss", 2)), losses);
  };
  CHECK(stop_at({nan, nan}) == 2);
  CHECK(stop_at({nan, 1.0, 0.9, nan, 0.8}) == 0);
}

TEST_CASE("early stop: a resumed run stops where an uninterrupted run does") {
  const std::vector<double> losses{1.0 / 3, 0.3, 0.1 + 0.2, 0.30000000000000004, 0.31, 0.3};
  const auto make = [] { return make_early_stop_hook(options("validation/loss", 4)); };
  const auto whole = make();
  CHECK(whole->save() == "");
  CHECK(stops_after(*whole, losses) == 6);
  for (std::size_t cut = 1; cut < losses.size(); ++cut) {
    const auto first = make();
    const auto middle = losses.begin() + static_cast<std::ptrdiff_t>(cut);
    CHECK(stops_after(*first, {losses.begin(), middle}) == 0);
    const auto second = make();
    second->restore(first->save());
    CHECK(second->save() == first->save());
    CHECK(stops_after(*second, {middle, losses.end()}, cut + 1) == losses.size() - cut);
  }
}

TEST_CASE("early stop: an evaluation that is repeated is counted once") {
  const auto first = make_early_stop_hook(options("validation/loss", 2));
  CHECK(stops_after(*first, {0.5, 0.6}) == 0);
  const auto resumed = make_early_stop_hook(options("validation/loss", 2));
  resumed->restore(first->save());
  for (int again = 0; again < 3; ++again) {
    CHECK(resumed->on_evaluation(evaluation(Split::kValidation, 2, 0.6)) == Request::kContinue);
  }
  CHECK(stops_after(*resumed, {0.7}, 3) == 1);
}

TEST_CASE("early stop judges the values of a resumed run by the options of the resume") {
  const auto first = make_early_stop_hook(options("validation/loss", 2, 0.1));
  CHECK(stops_after(*first, {1.0, 0.95, 0.91}) == 3);
  const auto resume = [&](std::int64_t patience, double min_delta) {
    auto hook = make_early_stop_hook(options("validation/loss", patience, min_delta));
    hook->restore(first->save());
    return hook;
  };
  CHECK(resume(2, 0.1)->has_stopped());
  CHECK(resume(1, 0.1)->has_stopped());
  CHECK_FALSE(resume(3, 0.1)->has_stopped());
  CHECK(stops_after(*resume(4, 0.1), {0.92, 0.93}, 4) == 2);
  // Each value is an improvement without the least difference.
  CHECK_FALSE(resume(1, 0)->has_stopped());
  CHECK(stops_after(*resume(2, 0), {0.92, 0.93}, 4) == 2);
}

TEST_CASE("early stop goes on from the state that checkpoints had before the history") {
  const auto hook = make_early_stop_hook(options("validation/loss", 5));
  hook->restore("0x1p-1 3 40");
  CHECK_FALSE(hook->has_stopped());
  CHECK(stops_after(*hook, {0.5, 0.6}, 41) == 2);
  CHECK(hook->has_stopped());
}

TEST_CASE("early stop: a saved state of another form is a DataError") {
  for (const char* text : {"", "x", "0.5", "0.5 ", " 1 1", "0.5 1", "0.5 1 ", "0.5 1x 1",
                           "0.5x 1 1", "0.5 -1 1", "0.5 1 2 3", "0.5 1 2 ",
                           "0.5 99999999999999999999 1", "7", "7 ", "7 0x1p-1 x", "7 0x1p-1 "}) {
    CAPTURE(text);
    CHECK_THROWS_AS(make_early_stop_hook(options("validation/loss", 1))->restore(text), DataError);
  }
  CHECK_NOTHROW(make_early_stop_hook(options("validation/loss", 1))->restore("none 1 7"));
  CHECK_NOTHROW(make_early_stop_hook(options("validation/loss", 1))->restore("0x1.8p-3 0 8"));
}

}  // namespace trainer::hooks
