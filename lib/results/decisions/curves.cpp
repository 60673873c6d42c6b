#include "results/decisions/curves.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "results/evaluation/find_class.h"

namespace trainer::results {
namespace {

using CurvesJson = nlohmann::ordered_json;

// Calls `each` for all points, or for about `max_points` evenly spaced ones with the last.
template <class Point, class Each>
void for_some_points(const std::vector<Point>& points, std::size_t max_points, const Each& each) {
  const std::size_t stride = (points.size() + max_points - 1) / max_points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i % stride == 0 || i + 1 == points.size()) each(points[i]);
  }
}

}  // namespace

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
    curves.roc = engine::roc_curve(all[c]);
    curves.precision_recall = engine::precision_recall_curve(all[c]);
    report.classes.push_back(std::move(curves));
  }
  if (report.classes.empty() && positive >= 0) {
    const engine::BinaryScores& scores = all[static_cast<std::size_t>(positive)];
    throw DataError(split,
                    concat("has ", scores.positives(), " samples of the class ",
                           printable(class_name(names, positive)), " and ", scores.negatives(),
                           " others, and a curve needs both; name another class with "
                           "--positive-class, or evaluate another split"));
  }
  if (report.classes.empty()) {
    throw DataError(split,
                    "has no class with some but not all of the samples, so that there is no curve; "
                    "evaluate samples of several classes");
  }
  return report;
}

nlohmann::ordered_json curves_json(const CurvesReport& report, std::size_t max_points) {
  CurvesJson classes = CurvesJson::array();
  for (const ClassCurves& one : report.classes) {
    CurvesJson roc = CurvesJson::array(), precision_recall = CurvesJson::array();
    for_some_points(one.roc, max_points, [&](const engine::RocPoint& point) {
      // The first point, which calls no sample positive, has no threshold: null.
      roc.push_back(
          {{"threshold", std::isfinite(point.threshold) ? sigmoid(point.threshold)
                                                        : std::numeric_limits<double>::quiet_NaN()},
           {"false_positive_rate", point.false_positive_rate},
           {"true_positive_rate", point.true_positive_rate}});
    });
    for_some_points(one.precision_recall, max_points,
                    [&](const engine::PrecisionRecallPoint& point) {
                      precision_recall.push_back({{"threshold", sigmoid(point.threshold)},
                                                  {"precision", point.precision},
                                                  {"recall", point.recall}});
                    });
    classes.push_back({{"class", one.name},
                       {"positives", one.positives},
                       {"negatives", one.negatives},
                       {"roc_auc", one.roc_area.area},
                       {"roc_auc_low", one.roc_area.interval.low},
                       {"roc_auc_high", one.roc_area.interval.high},
                       {"average_precision", one.average_precision},
                       {"roc", std::move(roc)},
                       {"precision_recall", std::move(precision_recall)}});
  }
  return {{"split", report.split}, {"classes", std::move(classes)}};
}

void print_curves(const CurvesReport& report, const std::string& stored, std::ostream& out) {
  out << "curves: one class against the rest, " << report.split;
  if (!stored.empty()) out << "; stored in " << printable(stored);
  out << '\n';
  Table table(
      {"class", "ROC AUC", "95 % interval (DeLong)", "average precision", "positives", "negatives"},
      {1, 2, 3, 4, 5});
  for (const ClassCurves& one : report.classes) {
    const engine::Interval& interval = one.roc_area.interval;
    table.add({printable(one.name), fixed(one.roc_area.area, 4),
               std::isnan(interval.low)
                   ? "-"
                   : concat(fixed(interval.low, 4), " to ", fixed(interval.high, 4)),
               fixed(one.average_precision, 4), std::to_string(one.positives),
               std::to_string(one.negatives)});
  }
  table.print(out);
}

}  // namespace trainer::results
