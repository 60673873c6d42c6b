// What `evaluate` computes from scores beside the metrics, from the out-of-fold predictions of
// `crossval`: calibration, curves and the operating point. A temperature or threshold that is
// measured on a fold was fitted to the predictions for the other folds, so that no sample is
// measured by a number that was fitted to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/notice.h"
#include "engine/metrics/calibration.h"
#include "results/decisions/calibrate.h"
#include "results/decisions/cost_matrix.h"
#include "results/decisions/curves.h"
#include "results/decisions/decision_options.h"
#include "results/decisions/operate.h"

namespace trainer::results {

// The name of all out-of-fold samples in texts and files.
inline constexpr const char* kOutOfFold = "out-of-fold";

struct FoldCalibration {
  double temperature = 1;            // fitted to all samples
  std::vector<double> temperatures;  // indexed by fold, fitted to the other folds
  engine::LabelledLogits corrected;  // all samples, divided by the temperature of their fold
  ReliabilityChange change;          // all samples, each with the temperature of its fold
  std::string contradiction;         // see contradiction.h
};
void fields(FieldVisitor& v, FoldCalibration& calibration);

// The threshold is found on all samples, and `counts` has each with the threshold of its fold.
struct FoldOperatingPoint : MeasuredThreshold {
  std::vector<double> fold_log_odds;  // thresholds indexed by fold, found on the other folds
};
void fields(FieldVisitor& v, FoldOperatingPoint& point);

// Each is empty where the predictions do not have it.
struct FoldDecisions {
  std::optional<engine::RocArea> auc;  // the AUC of the second of two classes
  std::optional<CurvesReport> curves;
  std::optional<FoldCalibration> calibration;
  // With the costs of all classes, each sample is decided about by the probabilities at the
  // temperature of its fold.
  std::optional<std::variant<FoldOperatingPoint, CostReport>> operating_point;
};
void fields(FieldVisitor& v, FoldDecisions& decisions);

// Throws ConfigError if the criterion or the positive class of the options cannot be that of a
// model with this loss, so many logits per sample and these classes, and DataError for a damaged
// file of costs.
void check_fold_options(const DecisionOptions& options, LossKind loss, std::int64_t outputs,
                        const std::vector<std::string>& classes);

// `folds` has the scores of each fold, at least two, all with the same number of outputs and at
// least one sample. Calibration, curves and the AUC are always computed, an operating point if the
// options name one. Warns and leaves out what cannot be computed: everything if a score is not
// finite, and what needs several classes if the samples have only one.
FoldDecisions decide_by_folds(const std::vector<engine::LabelledLogits>& folds,
                              const std::vector<std::string>& classes,
                              const DecisionOptions& options, const Warn& warn);

// Computes the curves of several labels over all folds. `scores` has those of each label, or
// nothing if there are too many. Warns and leaves out the curves if a score is not finite, or if no
// label has both samples with it and without it.
FoldDecisions draw_label_curves(const std::vector<engine::BinaryScores>& scores,
                                const std::vector<std::string>& labels, const Warn& warn);

// Returns why the samples contradict the decisions, as far as they do.
std::vector<std::string> list_contradictions(const FoldDecisions& decisions);
// Returns a part for each decision; the reliability diagram as a table unless `brief`.
Document show_fold_decisions(const FoldDecisions& decisions, bool brief);

}  // namespace trainer::results
