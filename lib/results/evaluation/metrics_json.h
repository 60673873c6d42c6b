// Writes the metrics of an evaluation as JSON whose size grows with the classes and not with their
// square.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/metrics/confusion.h"
#include "engine/metrics/multi_label.h"

namespace trainer::results {

// The whole matrix, which a person may look at, is written for at most this many classes.
inline constexpr std::int64_t kMaxMatrixClasses = 256;

// Adds "confusion": [[...], ...] to the object, with a row per true class. For more than
// kMaxMatrixClasses classes adds "top_confusions": [[true, predicted, samples], ...] instead: at
// most 1000 cells off the diagonal, the largest counts first.
void add_confusion(nlohmann::ordered_json& object, const engine::Confusion& confusion);

// Returns {"support": [...], "predicted": [...], "correct": [...]}, numbers of samples by class.
nlohmann::ordered_json class_counts_json(const engine::Confusion& confusion);

// Returns a list with an object per label, in label order: its counts of samples and, unless they
// are NaN, auc and average_precision.
nlohmann::ordered_json labels_json(const engine::MultiLabelMetrics& metrics);

}  // namespace trainer::results
