// Reads the results of `evaluate` in a run that `predict` uses.
#pragma once

#include <string>

#include "base/notice.h"
#include "inference/predict/predict.h"

namespace trainer::inference {

// Each function below warns of a result that belongs to other parameters or to other use of mirror
// images, and ignores it. Each throws DataError for a damaged file.

// Returns the temperature by which the logits of the model are divided, which `evaluate
// --calibrate` stores; 1 if the run has none.
double find_temperature(const OpenedModel& opened, bool flip);

struct StoredOperatingPoint {
  std::string criterion;  // the user's text
  // Set if the class of the least expected cost is decided for. The threshold is not used then.
  std::optional<engine::CostMatrix> costs;
  std::int64_t positive_class = 1;  // an index
  // Samples are called positive from this logarithm of the odds of the positive class on, without a
  // temperature; none if it is infinite.
  double log_odds = 0;
};
// Returns the operating point of the run, which `evaluate --operating-point` stores, if it has one.
std::optional<StoredOperatingPoint> find_operating_point(const OpenedModel& opened, bool flip);

// Sets the temperature of the run, if it has one, with a note.
void use_temperature(const OpenedModel& opened, results::PredictOptions& options);

// Sets the costs of the run's operating point or, of a model of two classes, its threshold, if the
// run has one, with a note. The temperature must be set before. Returns the criterion, or "" if no
// operating point decides.
std::string use_operating_point(const OpenedModel& opened, results::PredictOptions& options);

// Repeats the warning that `evaluate --abstain` of the same error has stored, if it has.
void warn_of_abstention(const OpenedModel& opened, bool flip, double error);

// Warns that a file of `format` has no distances to training images, if the run has a limit.
void warn_of_novelty(const OpenedModel& opened, const std::string& format);

// Notes each of these results that the run has, because a mean of several runs does not use it.
void note_unused_results(const OpenedModel& opened);

}  // namespace trainer::inference
