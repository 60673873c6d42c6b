#include "results/decisions/contradiction.h"

#include "base/error.h"
#include "base/formats/table.h"

namespace trainer::results {
namespace {

std::string describe_rate(double rate, const engine::Interval& interval) {
  return concat(percent(rate), " (", percent(interval.low), " to ", percent(interval.high), ")");
}

std::string find_rate_contradiction(const std::string& samples, const char* name, double goal,
                                    double rate, const engine::Interval& interval,
                                    std::int64_t whole) {
  if (whole == 0 || interval.high >= goal) return "";
  return concat("the ", name, " of the ", samples, " samples is ", describe_rate(rate, interval),
                ", below the goal of ", percent(goal));
}

}  // namespace

std::string find_loss_contradiction(const std::string& samples, const engine::Reliability& before,
                                    const engine::Reliability& after) {
  const std::string old_loss = fixed(before.negative_log_likelihood, 4);
  const std::string new_loss = fixed(after.negative_log_likelihood, 4);
  // A difference that is too small to print is that of rounding.
  if (after.negative_log_likelihood <= before.negative_log_likelihood || old_loss == new_loss) {
    return "";
  }
  return concat("the temperature raises the negative log-likelihood of the ", samples,
                " samples from ", old_loss, " to ", new_loss);
}

std::string find_goal_contradiction(const std::string& samples,
                                    const engine::OperatingCriterion& criterion,
                                    const engine::OperatingCounts& counts,
                                    const engine::OperatingCounts& likelier) {
  switch (criterion.kind) {
    case engine::OperatingCriterion::Kind::kSensitivity:
      return find_rate_contradiction(samples, "sensitivity", criterion.share, counts.sensitivity(),
                                     counts.sensitivity_interval(), counts.positives());
    case engine::OperatingCriterion::Kind::kSpecificity:
      return find_rate_contradiction(samples, "specificity", criterion.share, counts.specificity(),
                                     counts.specificity_interval(), counts.negatives());
    case engine::OperatingCriterion::Kind::kCost:
      break;
  }
  return find_cost_contradiction(samples, engine::mean_cost(criterion, likelier),
                                 engine::mean_cost(criterion, counts));
}

std::string find_cost_contradiction(const std::string& samples, double likeliest, double decided) {
  if (decided <= likeliest) return "";
  return concat("the decisions about the ", samples, " samples have a mean cost of ",
                fixed(decided, 4), ", above that of the likeliest class, ", fixed(likeliest, 4));
}

std::string find_error_contradiction(const std::string& samples, double allowed,
                                     const Answers& answers) {
  const engine::Interval interval = answers.error_interval();
  if (answers.labelled == 0 || interval.low <= allowed) return "";
  return concat("the classes given to the ", samples, " samples have an error of ",
                describe_rate(answers.error(), interval), ", above the allowed ", percent(allowed));
}

std::string add_advice(const std::string& sentence, const std::string& advice) {
  return sentence.empty() ? "" : concat(sentence, "; ", advice);
}

}  // namespace trainer::results
