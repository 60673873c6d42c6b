// The operating point of a run, which `evaluate --operating-point` stores in
// <run>/operating_point.json.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/notice.h"
#include "engine/metrics/operating_point.h"
#include "inference/open_model/open_model.h"
#include "results/run_files/result_files.h"

namespace trainer::inference {

struct StoredOperatingPoint {
  std::string criterion;  // the user's text
  // Set if the class of the least expected cost is decided for. The threshold is not used then.
  std::optional<engine::CostMatrix> costs;
  std::int64_t positive_class = 1;  // an index
  // Samples are called positive from this logarithm of the odds of the positive class on, without a
  // temperature; none if it is infinite, which the file has as null.
  double log_odds = 0;
};
// Returns the operating point of the run; nothing if it has none, or, with a warning, one that
// belongs to other parameters or to other use of mirror images. Throws DataError for a damaged
// file.
std::optional<StoredOperatingPoint> find_operating_point(
    const OpenedModel& opened, bool flip, const std::function<void(const Notice&)>& warn);

}  // namespace trainer::inference
