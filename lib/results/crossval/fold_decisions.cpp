#include "results/crossval/fold_decisions.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "results/decisions/contradiction.h"
#include "results/evaluation/find_class.h"

namespace trainer::results {
namespace {

using engine::LabelledLogits;

constexpr std::size_t kNoFold = -1;

// Returns the samples of all folds but one, in their order.
LabelledLogits join_folds(const std::vector<LabelledLogits>& folds, std::size_t left_out) {
  LabelledLogits all;
  all.outputs = folds.front().outputs;
  for (std::size_t fold = 0; fold < folds.size(); ++fold) {
    if (fold == left_out) continue;
    const LabelledLogits& part = folds[fold];
    all.logits.insert(all.logits.end(), part.logits.begin(), part.logits.end());
    all.labels.insert(all.labels.end(), part.labels.begin(), part.labels.end());
  }
  return all;
}

// Returns the fold, from 1, that has a score that is not a finite number; 0 if none has.
std::size_t find_fold_not_finite(const std::vector<LabelledLogits>& folds) {
  for (std::size_t fold = 0; fold < folds.size(); ++fold) {
    const std::vector<float>& logits = folds[fold].logits;
    if (!std::ranges::all_of(logits, [](float x) { return std::isfinite(x); })) {
      return fold + 1;
    }
  }
  return 0;
}

FoldCalibration calibrate_folds(const std::vector<LabelledLogits>& folds,
                                const LabelledLogits& all) {
  FoldCalibration result;
  result.temperature = engine::fit_temperature(all);
  result.change.before = engine::measure_reliability(all, 1);
  result.corrected = all;
  std::size_t next = 0;  // logit of result.corrected
  for (std::size_t fold = 0; fold < folds.size(); ++fold) {
    const double temperature = engine::fit_temperature(join_folds(folds, fold));
    result.temperatures.push_back(temperature);
    for (const float logit : folds[fold].logits) {
      result.corrected.logits[next++] =
          static_cast<float>(static_cast<double>(logit) / temperature);
    }
  }
  result.change.after = engine::measure_reliability(result.corrected, 1);
  result.contradiction =
      find_loss_contradiction(kOutOfFold, result.change.before, result.change.after);
  return result;
}

bool has_both(const engine::BinaryScores& scores) {
  return scores.positives() > 0 && scores.negatives() > 0;
}

void add_counts(engine::OperatingCounts& sum, const engine::OperatingCounts& counts) {
  sum.true_positives += counts.true_positives;
  sum.false_negatives += counts.false_negatives;
  sum.true_negatives += counts.true_negatives;
  sum.false_positives += counts.false_positives;
}

// Returns nothing, with a warning, if a threshold would be found on samples of one kind only.
std::optional<FoldOperatingPoint> find_fold_operating_point(
    const std::vector<LabelledLogits>& folds, const LabelledLogits& all,
    const std::vector<std::string>& classes, const DecisionOptions& options, const Warn& warn) {
  const engine::OperatingCriterion criterion = read_operating_criterion(options.operating_point);
  FoldOperatingPoint point;
  point.criterion = options.operating_point;
  point.positive_index = find_positive_class(classes, options.positive_class);
  const std::size_t positive = point.positive_index;
  point.positive_class = classes.at(positive);
  const auto find_scores = [&](const LabelledLogits& scores) {
    return engine::one_against_rest(scores).at(positive);
  };
  for (std::size_t fold = 0; fold < folds.size(); ++fold) {
    const engine::BinaryScores others = find_scores(join_folds(folds, fold));
    if (!has_both(others)) {
      warn(concat("there is no operating point: the samples of the folds other than fold ",
                  fold + 1, " are ", others.positives(), " of the class ",
                  printable(point.positive_class), " and ", others.negatives(),
                  " others, and a threshold needs both; give fewer folds"));
      return std::nullopt;
    }
    const double threshold = engine::find_operating_threshold(others, criterion);
    point.fold_log_odds.push_back(threshold);
    add_counts(point.counts, engine::count_at_threshold(find_scores(folds[fold]), threshold));
  }
  const engine::BinaryScores known = find_scores(all);
  point.log_odds = engine::find_operating_threshold(known, criterion);
  point.found = engine::count_at_threshold(known, point.log_odds);
  point.contradiction = find_goal_contradiction(kOutOfFold, criterion, point.counts,
                                                engine::count_at_threshold(known, 0));
  return point;
}

std::vector<double> to_probabilities(const std::vector<double>& log_odds) {
  std::vector<double> probabilities;
  for (const double x : log_odds) probabilities.push_back(std::isfinite(x) ? sigmoid(x) : 1);
  return probabilities;
}

// Thins the curves, so that the size of the file does not grow with the number of classes.
CurvesReport thin(CurvesReport curves) {
  constexpr std::size_t kMaxAll = 2000, kMinEach = 20;
  const std::size_t points = std::max(kMinEach, kMaxAll / (1 + curves.classes.size()));
  return thin_curves(std::move(curves), points);
}

// Returns "0.9 to 1.1", the least and the largest value.
std::string extent_text(const std::vector<double>& values) {
  if (values.empty()) return "-";
  const auto [low, high] = std::ranges::minmax_element(values);
  return concat(fixed(*low, 4), " to ", fixed(*high, 4));
}

Document show_fold_calibration(const FoldCalibration& calibration, bool brief) {
  Document document;
  document.add(Paragraph{concat("calibration: temperature ", fixed(calibration.temperature, 4),
                                "; each fold is measured with that of the other folds, ",
                                extent_text(calibration.temperatures))});
  add_end_of_range(document, calibration.temperatures, "samples");
  add_reliability(document, kOutOfFold, calibration.change);
  if (!brief) add_diagram(document, calibration.change);
  return document;
}

Document show_point(const FoldOperatingPoint& point, bool /*brief*/) {
  Document document;
  document.add(Paragraph{concat(describe_threshold(point), ", found on all samples; of the folds ",
                                extent_text(to_probabilities(point.fold_log_odds)))});
  document.add(
      make_rates_table({{"found on all samples", point.found},
                        {"each fold, by the threshold that the other folds give", point.counts}}));
  return document;
}

Document show_point(const CostReport& report, bool brief) { return show_costs(report, "", brief); }

}  // namespace

void fields(FieldVisitor& v, FoldCalibration& calibration) {
  v("temperature", calibration.temperature, kTemperature, "Fitted to all samples.");
  v.newer("contradiction", calibration.contradiction, kContradictionMeaning);
  v("fold_temperatures", calibration.temperatures, kTemperature,
    "By fold, fitted to the other folds.");
  fields(v, calibration.change);
}

void fields(FieldVisitor& v, FoldOperatingPoint& point) {
  threshold_fields(v, point);
  v("fold_log_odds", point.fold_log_odds, "Thresholds by fold, found on the other folds.");
  v("found", point.found, "All samples, by the threshold that was found on them.");
  v("counts", point.counts, "All samples, by the threshold of the other folds.");
}

void fields(FieldVisitor& v, FoldDecisions& decisions) {
  v.when_present("calibration", decisions.calibration, "The temperature.");
  v.when_present("curves", decisions.curves, "The curves, with some of their points.");
  v.when_present("operating_point", decisions.operating_point,
                 "The threshold, or the costs of all classes.");
}

void check_fold_options(const DecisionOptions& options, LossKind loss, std::int64_t outputs,
                        const std::vector<std::string>& classes) {
  const bool has_point = !options.operating_point.empty();
  if (!has_point && options.positive_class.empty()) return;
  const char* option = has_point ? "--operating-point" : "--positive-class";
  std::string reason = engine::why_no_class_probabilities(loss, outputs);
  if (reason.empty() && classes.empty()) reason = "the labels of the data are not classes";
  if (!reason.empty()) reject_without_classes(option, reason);
  const std::string cost_file = find_cost_file(options.operating_point);
  if (!cost_file.empty()) {
    read_cost_matrix(cost_file, classes);
    if (options.positive_class.empty()) return;  // of the curves only
  } else if (has_point) {
    read_operating_criterion(options.operating_point);
  }
  find_positive_class(classes, options.positive_class);
}

FoldDecisions decide_by_folds(const std::vector<LabelledLogits>& folds,
                              const std::vector<std::string>& classes,
                              const DecisionOptions& options, const Warn& warn) {
  FoldDecisions decisions;
  if (const std::size_t fold = find_fold_not_finite(folds)) {
    warn(concat("there is no calibration, curve or operating point: an output of the run of fold ",
                fold, " is not a finite number"));
    return decisions;
  }
  const LabelledLogits all = join_folds(folds, kNoFold);
  decisions.calibration = calibrate_folds(folds, all);
  const std::vector<std::int32_t>& labels = all.labels;
  const bool has_one_class =
      std::ranges::count(labels, labels.front()) == static_cast<std::ptrdiff_t>(labels.size());
  if (has_one_class) {
    warn("there is no curve or operating point: all samples are of one class");
    return decisions;
  }
  if (all.classes() == 2) decisions.auc = engine::roc_area(engine::one_against_rest(all).at(1));
  decisions.curves = thin(
      compute_curves(all, kOutOfFold, classes, find_curve_class(classes, options.positive_class)));
  if (const std::string file = find_cost_file(options.operating_point); !file.empty()) {
    decisions.operating_point =
        make_cost_report(options.operating_point, read_cost_matrix(file, classes), classes, {},
                         kOutOfFold, decisions.calibration->corrected);
  } else if (!options.operating_point.empty()) {
    decisions.operating_point = find_fold_operating_point(folds, all, classes, options, warn);
  }
  for (const std::string& reason : list_contradictions(decisions)) warn(reason);
  return decisions;
}

FoldDecisions draw_label_curves(const std::vector<engine::BinaryScores>& scores,
                                const std::vector<std::string>& labels, const Warn& warn) {
  FoldDecisions decisions;
  if (scores.empty()) {
    warn("there are no curves: there are too many predictions to keep");
    return decisions;
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::vector<double>& outputs = scores[i].scores;
    if (std::all_of(outputs.begin(), outputs.end(), [](double x) { return std::isfinite(x); }))
      continue;
    warn(concat("there are no curves: an output for the label ", printable(labels[i]),
                " is not a finite number"));
    return decisions;
  }
  if (std::none_of(scores.begin(), scores.end(), has_both)) {
    warn("there are no curves: no label has both images with it and without it");
    return decisions;
  }
  constexpr std::int64_t kAll = -1;
  decisions.curves = thin(compute_curves(scores, kOutOfFold, labels, kAll));
  return decisions;
}

std::vector<std::string> list_contradictions(const FoldDecisions& decisions) {
  std::vector<std::string> reasons;
  if (decisions.calibration) reasons.push_back(decisions.calibration->contradiction);
  if (decisions.operating_point) {
    reasons.push_back(std::visit([](const auto& point) { return point.contradiction; },
                                 *decisions.operating_point));
  }
  std::erase(reasons, "");
  return reasons;
}

Document show_fold_decisions(const FoldDecisions& decisions, bool brief) {
  Document document;
  const auto append = [&](Document part) {
    if (!brief) document.add(BlankLine{});
    document.append(std::move(part));
  };
  if (decisions.calibration) append(show_fold_calibration(*decisions.calibration, brief));
  if (decisions.curves) append(show_curves(*decisions.curves, ""));
  if (decisions.operating_point) {
    append(std::visit([&](const auto& point) { return show_point(point, brief); },
                      *decisions.operating_point));
  }
  return document;
}

}  // namespace trainer::results
