// `trainer evaluate --curves`: ROC and precision-recall curves with their areas.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "engine/metrics/roc_curve.h"

namespace trainer::results {

// The curves of one class against the rest.
struct ClassCurves {
  std::string name;
  std::int64_t positives = 0, negatives = 0;  // samples
  engine::RocArea roc_area;
  double average_precision = 0;
  std::vector<engine::RocPoint> roc;
  std::vector<engine::PrecisionRecallPoint> precision_recall;
};

struct CurvesReport {
  std::string split;  // the name of the evaluated samples: "test"
  // The positive one of two classes; of more, or without a positive class, those that have some but
  // not all samples.
  std::vector<ClassCurves> classes;
};

// Returns the class whose curves are computed, or -1 for all classes: the positive class if there
// are two or the option names one. Throws ConfigError if there is no class of this name.
std::int64_t find_curve_class(const std::vector<std::string>& classes,
                              const std::string& positive_class);

// `positive` is the class whose curves are computed, or -1 for all classes. The thresholds are
// probabilities at a temperature of 1.
CurvesReport compute_curves(const engine::LabelledLogits& scores, const std::string& split,
                            const std::vector<std::string>& names, std::int64_t positive);

// Computes the curves of classes or labels whose scores are the logarithms of their odds.
CurvesReport compute_curves(const std::vector<engine::BinaryScores>& scores,
                            const std::string& split, const std::vector<std::string>& names,
                            std::int64_t positive);

// Returns the areas and about `max_points` points of each curve, evenly spaced, or all.
nlohmann::ordered_json curves_json(const CurvesReport& report, std::size_t max_points);

// Prints a table of the areas. `stored` is the file that has the curves, or "".
void print_curves(const CurvesReport& report, const std::string& stored, std::ostream& out);

}  // namespace trainer::results
