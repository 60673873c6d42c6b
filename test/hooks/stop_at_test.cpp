#include <doctest/doctest.h>

#include "base/error.h"
#include "config/sections/train.h"
#include "hooks/support.h"

namespace trainer::hooks {

using namespace test;

TEST_CASE(
    "stop at: accuracy is reached from below, loss from above, and other splits do not count") {
  const auto hook = make_stop_at_hook({"validation/accuracy", 0.75, {}});
  Evaluation e = evaluation(Split::kValidation, 1, 0.5);
  e.metrics.accuracy = 0.7499;
  CHECK(hook->on_evaluation(e) == Request::kContinue);
  e.metrics.accuracy = 0.75;
  CHECK(hook->on_evaluation(e) == Request::kStop);
  e.split = Split::kTest;
  CHECK(hook->on_evaluation(e) == Request::kContinue);

  const auto loss = make_stop_at_hook({"validation/loss", 0.5, {}});
  CHECK(loss->on_evaluation(evaluation(Split::kValidation, 1, 0.51)) == Request::kContinue);
  CHECK(loss->on_evaluation(evaluation(Split::kValidation, 2, 0.5)) == Request::kStop);
}

TEST_CASE("stop at judges the last value of a resumed run by the value of the resume") {
  const auto first = make_stop_at_hook({"validation/loss", 0.5, {}});
  CHECK(first->save() == "");
  CHECK_FALSE(first->has_stopped());
  CHECK(first->on_evaluation(evaluation(Split::kValidation, 2, 0.4)) == Request::kStop);
  for (const double value : {0.5, 0.4, 0.39}) {
    const auto resumed = make_stop_at_hook({"validation/loss", value, {}});
    resumed->restore(first->save());
    CHECK(resumed->has_stopped() == (value >= 0.4));
  }
  CHECK_THROWS_AS(make_stop_at_hook({"validation/loss", 1, {}})->restore("x"), DataError);
}

}  // namespace trainer::hooks
