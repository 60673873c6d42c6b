// A confusion matrix as JSON whose size grows with the classes and not with their square.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/confusion.h"

namespace trainer::hooks {

// Classes up to which the whole matrix is written.
inline constexpr std::int64_t kMaxMatrixClasses = 256;

// Adds to the object "confusion": [[...], ...], a row per true class; of more than
// kMaxMatrixClasses classes "top_confusions": [[true, predicted, samples], ...], the largest counts
// off the diagonal first and at most 1000.
void add_confusion(nlohmann::ordered_json& object, const engine::Confusion& confusion);

// {"support": [...], "predicted": [...], "correct": [...]}: samples by class.
nlohmann::ordered_json class_counts_json(const engine::Confusion& confusion);

}  // namespace trainer::hooks
