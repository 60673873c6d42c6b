// `trainer evaluate --calibrate`: reliability of the probabilities, and the temperature that
// corrects them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/split.h"
#include "engine/metrics/calibration.h"
#include "results/document/document.h"
#include "results/field.h"

namespace trainer::results {

// Other temperatures would give infinite logits, or equal ones. The range of fitted temperatures is
// smaller.
inline constexpr Unit kTemperature = Unit("", 1e-3, 1e3).never_null();

// The reliability of the same samples before and after the temperature.
struct ReliabilityChange {
  engine::Reliability before, after;
};
void fields(FieldVisitor& v, ReliabilityChange& change);

struct CalibrationReport {
  double temperature = 1;
  struct Fitted {
    Split split = Split::kValidation;
    std::int64_t samples = 0;
    double loss_before = 0, loss_after = 0;  // negative log-likelihood
  };
  Fitted fitted;
  Split split = Split::kTest;  // the evaluated split
  std::string contradiction;   // see contradiction.h
  ReliabilityChange change;    // that of its samples
};
void fields(FieldVisitor& v, CalibrationReport::Fitted& fitted);
void fields(FieldVisitor& v, CalibrationReport& report);

// Fits the temperature to the samples of the validation split, and measures the other samples
// before and after. Neither may be empty.
CalibrationReport calibrate(const engine::LabelledLogits& validation, Split split,
                            const engine::LabelledLogits& scores);

// Adds a line to the document if a temperature is at the end of its range. `fitted_to` names the
// samples.
void add_end_of_range(Document& document, const std::vector<double>& temperatures,
                      const std::string& fitted_to);
// Adds the reliability diagram as a chart, and a table of the measures of the samples that are
// called `samples`.
void add_reliability(Document& document, const std::string& samples,
                     const ReliabilityChange& change);
// Adds the reliability diagram as a table.
void add_diagram(Document& document, const ReliabilityChange& change);
// Returns the temperature, the measures and, unless `brief`, the reliability diagram as a table.
// `ending` ends the first line: "; stored in ...".
Document show_calibration(const CalibrationReport& report, const std::string& ending, bool brief);

}  // namespace trainer::results
