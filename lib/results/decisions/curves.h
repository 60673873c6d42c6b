// `trainer evaluate --curves`: ROC and precision-recall curves with their areas.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/metrics/roc_curve.h"
#include "results/document/document.h"
#include "results/field.h"

namespace trainer::results {

// The curves of one class against the rest. The thresholds are probabilities at a temperature of 1;
// the first point of a ROC curve, which calls no sample positive, has NaN.
struct ClassCurves {
  std::string name;
  std::int64_t positives = 0, negatives = 0;  // samples
  engine::RocArea roc_area;
  double average_precision = 0;
  std::vector<engine::RocPoint> roc;
  std::vector<engine::PrecisionRecallPoint> precision_recall;
};
void fields(FieldVisitor& v, ClassCurves& curves);

struct CurvesReport {
  std::string split;  // the name of the evaluated samples: "test"
  // The positive one of two classes; of more, or without a positive class, those that have some but
  // not all samples.
  std::vector<ClassCurves> classes;
};
void fields(FieldVisitor& v, CurvesReport& report);

// Returns the class whose curves are computed, or -1 for all classes: the positive class if there
// are two or the option names one. Throws ConfigError if there is no class of this name.
std::int64_t find_curve_class(const std::vector<std::string>& classes,
                              const std::string& positive_class);

// `positive` is the class whose curves are computed, or -1 for all classes.
CurvesReport compute_curves(const engine::LabelledLogits& scores, const std::string& split,
                            const std::vector<std::string>& names, std::int64_t positive);

// Computes the curves of classes or labels whose scores are the logarithms of their odds.
CurvesReport compute_curves(const std::vector<engine::BinaryScores>& scores,
                            const std::string& split, const std::vector<std::string>& names,
                            std::int64_t positive);

// Returns the curves with about `max_points` points each, evenly spaced with the last, or all.
CurvesReport thin_curves(CurvesReport report, std::size_t max_points);

// Returns a table of the areas, and charts of the classes with the smallest ones. `ending` ends the
// first line: "; stored in ...".
Document show_curves(const CurvesReport& report, const std::string& ending);

}  // namespace trainer::results
