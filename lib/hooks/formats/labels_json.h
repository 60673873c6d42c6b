// The results of several labels as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/metrics/multi_label.h"

namespace trainer::hooks {

// Returns a list with an object per label, in label order: its counts of samples and, unless they
// are NaN, auc and average_precision.
nlohmann::ordered_json labels_json(const engine::MultiLabelMetrics& metrics);

}  // namespace trainer::hooks
