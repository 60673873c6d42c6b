// `trainer evaluate --operating-point`: the threshold of the positive class, found on the
// validation split and applied to the evaluated one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/split.h"
#include "engine/metrics/operating_point.h"
#include "results/document/document.h"
#include "results/field.h"

namespace trainer::results {

// Reads the criterion of the command line. Throws ConfigError, with the forms that it has.
engine::OperatingCriterion read_operating_criterion(const std::string& text);

// Returns a rate with its interval and counts, or "-" without samples to measure it on.
std::string rate_text(double rate, const engine::Interval& interval, std::int64_t part,
                      std::int64_t whole);
// Lists a rate with its interval, which are null without samples to measure it on.
void rate_fields(FieldVisitor& v, const std::string& name, double rate,
                 const engine::Interval& interval, std::int64_t whole, const char* meaning);
// The counts, and the rates with their 95 % intervals.
void fields(FieldVisitor& v, engine::OperatingCounts& counts);

struct MeasuredThreshold {
  std::string criterion;  // the user's text
  std::string positive_class;
  std::int64_t positive_index = 1;
  // Samples are called positive from this logarithm of the odds of the positive class on, without a
  // temperature; none is if it is not finite.
  double log_odds = 0;
  // The temperature of the probability of the threshold; empty if it has none: the odds of one of
  // more than two classes, and those of folds.
  std::optional<double> temperature;
  engine::OperatingCounts found;   // the samples on which the threshold was found
  engine::OperatingCounts counts;  // the samples that are evaluated
  std::string contradiction;       // see contradiction.h
};
// Lists the criterion, the positive class and the threshold.
void threshold_fields(FieldVisitor& v, MeasuredThreshold& threshold);

// The threshold is found on the validation split.
struct OperatingReport : MeasuredThreshold {
  Split split = Split::kTest;  // the evaluated split
};
void fields(FieldVisitor& v, OperatingReport& report);

// `temperature` is that of predict. Throws DataError if the validation split has no positive or no
// negative samples.
OperatingReport find_operating_report(const std::string& criterion, std::int64_t positive,
                                      const std::string& positive_class, double temperature,
                                      const engine::LabelledLogits& validation, Split split,
                                      const engine::LabelledLogits& scores);

// Returns the criterion, the positive class and the threshold as a sentence.
std::string describe_threshold(const MeasuredThreshold& threshold);
// Returns a row of sensitivity and specificity for each name of samples.
Table make_rates_table(const std::vector<std::pair<std::string, engine::OperatingCounts>>& rows);

// Returns the threshold, and sensitivity and specificity of both splits with their 95 % intervals.
// `ending` ends the first line: "; stored in ...".
Document show_operating_point(const OperatingReport& report, const std::string& ending);

}  // namespace trainer::results
