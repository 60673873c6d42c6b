#include "train/schedule/step_summary.h"

#include <doctest/doctest.h>

namespace trainer::train {
namespace {

using hooks::Request;

StepSummary sum_summaries(const std::vector<StepSummary>& ranks) {
  StepSummary::Values sum{};
  for (const StepSummary& rank : ranks) {
    const StepSummary::Values numbers = rank.to_values();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += numbers[i];
  }
  return StepSummary::from_sum(sum);
}

}  // namespace

TEST_CASE("StepSummary: each field alone is kept by the sum over ranks") {
  const auto check = [](const auto& set, const auto& get) {
    StepSummary own;
    set(own);
    const StepSummary summary = sum_summaries({own, {}});
    CHECK(get(summary));
    CHECK_FALSE(get(sum_summaries({{}, {}})));
    // It is not another field.
    StepSummary rest = summary;
    CHECK(sum_summaries({own}).to_values() == own.to_values());
    CHECK(rest.to_values() == own.to_values());
  };
  check([](auto& v) { v.loss = 0.5; }, [](const auto& v) { return v.loss == 0.5; });
  check([](auto& v) { v.accuracy = 0.25; }, [](const auto& v) { return v.accuracy == 0.25; });
  check([](auto& v) { v.penalty = 2; }, [](const auto& v) { return v.penalty == 2.0; });
  check([](auto& v) { v.due.evaluate = true; }, [](const auto& v) { return v.due.evaluate; });
  check([](auto& v) { v.due.save = true; }, [](const auto& v) { return v.due.save; });
  check([](auto& v) { v.due.interrupted = true; }, [](const auto& v) { return v.due.interrupted; });
  check([](auto& v) { v.due.request = Request::kSave; },
        [](const auto& v) { return v.due.request == Request::kSave; });
  check([](auto& v) { v.due.request = Request::kStop; },
        [](const auto& v) { return v.due.request == Request::kStop; });
  check([](auto& v) { v.unreadable = true; }, [](const auto& v) { return v.unreadable; });
  check([](auto& v) { v.sample_ids = 0x8123456789abcdefu; },
        [](const auto& v) { return v.sample_ids == 0x8123456789abcdefu; });
}

TEST_CASE("StepSummary: losses are summed over ranks, the penalty is not") {
  StepSummary one, two, three;
  one.loss = 1;
  two.loss = 0.5;
  one.penalty = 3;
  two.penalty = 3;
  const StepSummary summary = sum_summaries({one, two, three});
  CHECK(summary.loss == 1.5);
  CHECK(summary.penalty == 3.0);
}

TEST_CASE("StepSummary: hashes of samples are summed modulo 2^64") {
  StepSummary one, two, three;
  one.sample_ids = 0xffffffffffffffffu;
  two.sample_ids = 0xffffffff00000003u;
  three.sample_ids = 7;
  CHECK(sum_summaries({one, two, three}).sample_ids == 0xffffffff00000009u);
}

TEST_CASE("DueActions::merge keeps the strongest request and the actions of both") {
  DueActions due;
  CHECK_FALSE(due.any());
  due.merge({.evaluate = true, .save = false, .interrupted = false, .request = Request::kStop});
  due.merge({.evaluate = false, .save = true, .interrupted = false, .request = Request::kSave});
  CHECK(due.any());
  CHECK(due.evaluate);
  CHECK(due.save);
  CHECK_FALSE(due.interrupted);
  CHECK(due.request == Request::kStop);
  DueActions signal;
  signal.interrupted = true;
  CHECK(signal.any());
}

}  // namespace trainer::train
