// Reasons why the samples on which a decision is measured contradict it: a temperature, an
// operating point or abstention that was found on other samples. Each function returns a sentence,
// or "" where the samples do not contradict the decision. `samples` names them: "test".
#pragma once

#include <string>

#include "engine/metrics/calibration.h"
#include "engine/metrics/operating_point.h"
#include "results/decisions/abstain.h"

namespace trainer::results {

// The meaning of the key "contradiction".
inline constexpr const char* kContradictionMeaning =
    "Why the evaluated samples contradict the result; empty if they do not.";

// The temperature raises the negative log-likelihood, by more than rounding.
std::string find_loss_contradiction(const std::string& samples, const engine::Reliability& before,
                                    const engine::Reliability& after);

// The interval of the sensitivity or the specificity is below the criterion, or the samples cost
// more than by the likelier class, whose counts `likelier` has.
std::string find_goal_contradiction(const std::string& samples,
                                    const engine::OperatingCriterion& criterion,
                                    const engine::OperatingCounts& counts,
                                    const engine::OperatingCounts& likelier);

// The mean cost of the decisions is above that of decisions for the likeliest class.
std::string find_cost_contradiction(const std::string& samples, double likeliest, double decided);

// The interval of the error of the answers is above the allowed error.
std::string find_error_contradiction(const std::string& samples, double allowed,
                                     const Answers& answers);

// Returns the sentence with advice behind it, or "".
std::string add_advice(const std::string& sentence, const std::string& advice);

}  // namespace trainer::results
