#include "results/decisions/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "results/evaluation/find_class.h"

namespace trainer::results {
namespace {

// Keeps about `max_points` evenly spaced points with the last, or all.
template <class Point>
void thin(std::vector<Point>& points, std::size_t max_points) {
  const std::size_t stride = (points.size() + max_points - 1) / max_points;
  std::vector<Point> kept;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i % stride == 0 || i + 1 == points.size()) kept.push_back(points[i]);
  }
  points = std::move(kept);
}

// Replaces the logarithms of odds by probabilities, and infinite ones by NaN.
template <class Point>
std::vector<Point> with_probabilities(std::vector<Point> points) {
  for (Point& point : points) {
    point.threshold = std::isfinite(point.threshold) ? sigmoid(point.threshold)
                                                     : std::numeric_limits<double>::quiet_NaN();
  }
  return points;
}

// Returns the classes of the smallest areas below their ROC curve, as many as a chart has colours.
std::vector<ClassCurves> find_hardest(std::vector<ClassCurves> classes) {
  constexpr std::size_t kMaxCurves = 6;
  std::ranges::stable_sort(classes, {}, [](const ClassCurves& one) { return one.roc_area.area; });
  if (classes.size() > kMaxCurves) classes.resize(kMaxCurves);
  return classes;
}

Charts draw_curves(const CurvesReport& report) {
  Chart roc{
      "roc", "ROC", "1 - specificity (false positive rate)", "sensitivity (true positive rate)",
      {},    true};
  Chart precision{"precision-recall", "Precision and recall", "recall", "precision", {}, true};
  for (const ClassCurves& one : find_hardest(report.classes)) {
    Series rates{one.name, {}}, precisions{one.name, {}};
    for (const engine::RocPoint& point : one.roc) {
      rates.points.emplace_back(point.false_positive_rate, point.true_positive_rate);
    }
    for (const engine::PrecisionRecallPoint& point : one.precision_recall) {
      precisions.points.emplace_back(point.recall, point.precision);
    }
    roc.series.push_back(std::move(rates));
    precision.series.push_back(std::move(precisions));
  }
  roc.series.push_back({"chance", {{0, 0}, {1, 1}}, true});
  return {std::move(roc), std::move(precision)};
}

}  // namespace

void fields(FieldVisitor& v, engine::RocPoint& point) {
  v("threshold", point.threshold, kShare, "The least probability that is called positive.");
  v("false_positive_rate", point.false_positive_rate, kShare, "Share of the negative samples.");
  v("true_positive_rate", point.true_positive_rate, kShare, "Share of the positive samples.");
}

void fields(FieldVisitor& v, engine::PrecisionRecallPoint& point) {
  v("threshold", point.threshold, kShare, "The least probability that is called positive.");
  v("precision", point.precision, kShare, "Positive samples among those that are called so.");
  v("recall", point.recall, kShare, "Positive samples that are called so.");
}

void fields(FieldVisitor& v, ClassCurves& curves) {
  v("class", curves.name, "The class or label that is positive.");
  v("positives", curves.positives, kSamples, "Samples of the class.");
  v("negatives", curves.negatives, kSamples, "The other samples.");
  v("roc_auc", curves.roc_area.area, kShare, "Area under the ROC curve.");
  v("roc_auc_low", curves.roc_area.interval.low, kShare,
    "Lower end of its 95 % interval (DeLong).");
  v("roc_auc_high", curves.roc_area.interval.high, kShare,
    "Upper end of its 95 % interval (DeLong).");
  v("average_precision", curves.average_precision, kShare, "Average precision.");
  v("roc", curves.roc, "Points of the ROC curve.");
  v("precision_recall", curves.precision_recall, "Points of the precision-recall curve.");
}

void fields(FieldVisitor& v, CurvesReport& report) {
  v("split", report.split, "The evaluated samples.");
  v("classes", report.classes, "The curves of each class against the rest.");
}

std::int64_t find_curve_class(const std::vector<std::string>& classes,
                              const std::string& positive_class) {
  const bool is_of_all = classes.size() != 2 && positive_class.empty();
  return is_of_all ? -1 : find_positive_class(classes, positive_class);
}

CurvesReport compute_curves(const engine::LabelledLogits& scores, const std::string& split,
                            const std::vector<std::string>& names, std::int64_t positive) {
  return compute_curves(engine::one_against_rest(scores), split, names, positive);
}

CurvesReport compute_curves(const std::vector<engine::BinaryScores>& all, const std::string& split,
                            const std::vector<std::string>& names, std::int64_t positive) {
  CurvesReport report;
  report.split = split;
  for (std::size_t c = 0; c < all.size(); ++c) {
    if (positive >= 0 && c != static_cast<std::size_t>(positive)) continue;
    ClassCurves curves;
    curves.name = class_name(names, c);
    curves.positives = all[c].positives();
    curves.negatives = all[c].negatives();
    if (curves.positives == 0 || curves.negatives == 0) continue;
    curves.roc_area = engine::roc_area(all[c]);
    curves.average_precision = engine::average_precision(all[c]);
    curves.roc = with_probabilities(engine::roc_curve(all[c]));
    curves.precision_recall = with_probabilities(engine::precision_recall_curve(all[c]));
    report.classes.push_back(std::move(curves));
  }
  if (report.classes.empty() && positive >= 0) {
    const engine::BinaryScores& scores = all[static_cast<std::size_t>(positive)];
    throw DataError(split, "has ", scores.positives(), " samples of the class ",
                    printable(class_name(names, positive)), " and ", scores.negatives(),
                    " others, and a curve needs both; name another class with "
                    "--positive-class, or evaluate another split");
  }
  if (report.classes.empty()) {
    throw DataError(split,
                    "has no class with some but not all of the samples, so that there is no curve; "
                    "evaluate samples of several classes");
  }
  return report;
}

CurvesReport thin_curves(CurvesReport report, std::size_t max_points) {
  for (ClassCurves& one : report.classes) {
    thin(one.roc, max_points);
    thin(one.precision_recall, max_points);
  }
  return report;
}

Document show_curves(const CurvesReport& report, const std::string& ending) {
  Document document;
  document.add(Paragraph{concat("curves: one class against the rest, ", report.split, ending)});
  document.add(draw_curves(report));
  Table table(
      {"class", "ROC AUC", "95 % interval (DeLong)", "average precision", "positives", "negatives"},
      NumbersFrom{1}, "Areas of the curves");
  for (const ClassCurves& one : report.classes) {
    const engine::Interval& interval = one.roc_area.interval;
    table.add({printable(one.name), fixed(one.roc_area.area, 4),
               std::isnan(interval.low)
                   ? "-"
                   : concat(fixed(interval.low, 4), " to ", fixed(interval.high, 4)),
               fixed(one.average_precision, 4), std::to_string(one.positives),
               std::to_string(one.negatives)});
  }
  document.add(std::move(table));
  return document;
}

}  // namespace trainer::results
