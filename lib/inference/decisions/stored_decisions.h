// Reads the results of `evaluate` in a run that `predict` uses.
#pragma once

#include <functional>
#include <string>

#include "base/notice.h"
#include "inference/predict/predict.h"

namespace trainer::inference {

// Sets the temperature of the run, if it has one, with a note.
void use_temperature(const OpenedModel& opened, results::PredictOptions& options,
                     const std::function<void(const Notice&)>& warn);

// Sets the costs of the run's operating point or, of a model of two classes, its threshold, if the
// run has one, with a note. The temperature must be set before. Returns the criterion, or "" if no
// operating point decides.
std::string use_operating_point(const OpenedModel& opened, results::PredictOptions& options,
                                const std::function<void(const Notice&)>& warn);

// Repeats the warning that `evaluate --abstain` of the same error has stored, if it has.
void warn_of_abstention(const OpenedModel& opened, bool flip, double error,
                        const std::function<void(const Notice&)>& warn);

// Notes each of these results that the run has, because a mean of several runs does not use it.
void note_unused_results(const OpenedModel& opened, const std::function<void(const Notice&)>& warn);

}  // namespace trainer::inference
