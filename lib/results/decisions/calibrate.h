// `trainer evaluate --calibrate`: reliability of the probabilities, and the temperature that
// corrects them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "base/split.h"
#include "engine/metrics/calibration.h"

namespace trainer::results {

struct CalibrationReport {
  double temperature = 1;
  std::int64_t fitted_samples = 0;                       // samples of the validation split
  double fitted_loss_before = 0, fitted_loss_after = 0;  // negative log-likelihood of these
  Split split = Split::kTest;                            // the evaluated split
  engine::Reliability before, after;                     // the reliability of its samples
  std::string contradiction;                             // see contradiction.h
};

// Fits the temperature to the samples of the validation split, and measures the other samples
// before and after. Neither may be empty.
CalibrationReport calibrate(const engine::LabelledLogits& validation, Split split,
                            const engine::LabelledLogits& scores);

// Adds the measures and the bins of samples to the object.
void add_reliability(nlohmann::ordered_json& object, const engine::Reliability& before,
                     const engine::Reliability& after);

// Returns the content of kCalibrationFile.
nlohmann::ordered_json calibration_json(const CalibrationReport& report);

// Prints a line if a temperature is at the end of its range. `fitted_to` names the samples.
void print_end_of_range(const std::vector<double>& temperatures, const std::string& fitted_to,
                        std::ostream& out);
// Prints a table of the measures of the samples that are called `samples`.
void print_reliability(const std::string& samples, const engine::Reliability& before,
                       const engine::Reliability& after, std::ostream& out);
// Prints the reliability diagram as a table.
void print_diagram(const engine::Reliability& before, const engine::Reliability& after,
                   std::ostream& out);
// Prints the temperature, the measures and, unless `brief`, the reliability diagram as a table.
// `stored` is the file that has the temperature, or "" if it was not stored.
void print_calibration(const CalibrationReport& report, const std::string& stored, bool brief,
                       std::ostream& out);

}  // namespace trainer::results
