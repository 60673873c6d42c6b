#include "results/decisions/contradiction.h"

#include <doctest/doctest.h>

#include "support/contains.h"

namespace trainer::results::contradiction_test {

using test::contains;
using Kind = engine::OperatingCriterion::Kind;

TEST_CASE("find_loss_contradiction() reports a loss that rises by more than rounding") {
  engine::Reliability before, after;
  before.negative_log_likelihood = 0.473;
  after.negative_log_likelihood = 0.556;
  CHECK(contains(find_loss_contradiction("test", before, after),
                 "of the test samples from 0.4730 to 0.5560"));
  CHECK(find_loss_contradiction("test", after, before).empty());
  after.negative_log_likelihood = 0.47301;
  CHECK(find_loss_contradiction("test", before, after).empty());
}

TEST_CASE("find_goal_contradiction() reports an interval below the goal, not a rate below it") {
  const engine::OperatingCriterion criterion{Kind::kSpecificity, 0.95, 0, 0};
  engine::OperatingCounts counts{5, 5, 20, 10};
  CHECK(contains(find_goal_contradiction("test", criterion, counts, {}),
                 "the specificity of the test samples is 66.67 % (48.78 % to 80.77 %), below the "
                 "goal of 95.00 %"));
  counts.false_positives = 2;
  CHECK(find_goal_contradiction("test", criterion, counts, {}).empty());
  // Without negative samples there is nothing that could contradict.
  CHECK(find_goal_contradiction("test", criterion, {5, 5, 0, 0}, {}).empty());
  CHECK(contains(find_goal_contradiction("test", {Kind::kSensitivity, 0.99, 0, 0}, counts, {}),
                 "sensitivity"));
}

TEST_CASE("find_goal_contradiction() compares the costs with those of the likelier class") {
  const engine::OperatingCriterion criterion{Kind::kCost, 0, 1, 5};
  const engine::OperatingCounts counts{9, 1, 5, 5}, likelier{8, 2, 10, 0};
  CHECK(find_goal_contradiction("test", criterion, counts, likelier).empty());
  CHECK(contains(find_goal_contradiction("test", {Kind::kCost, 0, 2, 1}, counts, likelier),
                 "have a mean cost of 0.5500, above that of the likeliest class, 0.1000"));
}

TEST_CASE("find_error_contradiction() reports an interval above the allowed error") {
  CHECK(contains(find_error_contradiction("test", 0.02, {150, 143, 143, 20}),
                 "have an error of 13.99 %"));
  CHECK(find_error_contradiction("test", 0.1, {150, 143, 143, 20}).empty());
  CHECK(find_error_contradiction("test", 0.02, {}).empty());
}

}  // namespace trainer::results::contradiction_test
