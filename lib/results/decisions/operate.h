// `trainer evaluate --operating-point`: the threshold of the positive class, found on the
// validation split and applied to the evaluated one.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/split.h"
#include "engine/metrics/operating_point.h"

namespace trainer::results {

// Reads the criterion of the command line. Throws ConfigError, with the forms that it has.
engine::OperatingCriterion read_operating_criterion(const std::string& text);

struct MeasuredThreshold {
  std::string criterion;  // the user's text
  std::string positive_class;
  std::int64_t positive_index = 1;
  double log_odds = 0;  // see StoredOperatingPoint
  // The temperature of the probability of the threshold; empty if it has none: the odds of one of
  // more than two classes, and those of folds.
  std::optional<double> temperature;
  engine::OperatingCounts found;   // the samples on which the threshold was found
  engine::OperatingCounts counts;  // the samples that are evaluated
  std::string contradiction;       // see contradiction.h
};

// The threshold is found on the validation split.
struct OperatingReport : MeasuredThreshold {
  Split split = Split::kTest;  // the evaluated split
};

// `temperature` is that of predict. Throws DataError if the validation split has no positive or no
// negative samples.
OperatingReport find_operating_report(const std::string& criterion, std::int64_t positive,
                                      const std::string& positive_class, double temperature,
                                      const engine::LabelledLogits& validation, Split split,
                                      const engine::LabelledLogits& scores);

// Returns the counts, and the rates with their 95 % intervals.
nlohmann::ordered_json operating_counts_json(const engine::OperatingCounts& counts);
// Returns the criterion, the positive class and the threshold.
nlohmann::ordered_json threshold_json(const MeasuredThreshold& threshold);
// Returns these as a sentence.
std::string describe_threshold(const MeasuredThreshold& threshold);
// Prints a row of sensitivity and specificity for each name of samples.
void print_operating_counts(
    const std::vector<std::pair<std::string, engine::OperatingCounts>>& rows, std::ostream& out);

// Returns the content of kOperatingPointFile.
nlohmann::ordered_json operating_point_json(const OperatingReport& report);

// Prints the threshold, and sensitivity and specificity of both splits with their 95 % intervals.
// `stored` is the file that has them, or "".
void print_operating_point(const OperatingReport& report, const std::string& stored,
                           std::ostream& out);

}  // namespace trainer::results
