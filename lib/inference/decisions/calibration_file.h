// The temperature of a run, which `evaluate --calibrate` stores in <run>/calibration.json.
#pragma once

#include <functional>

#include "base/notice.h"
#include "inference/open_model/open_model.h"
#include "results/run_files/result_files.h"

namespace trainer::inference {

// Returns the temperature by which the logits of the model are divided, or 1 if the run has none.
// If the stored one belongs to other parameters or to other use of mirror images, warns and
// returns 1. Throws DataError for a damaged file.
double find_temperature(const OpenedModel& opened, bool flip,
                        const std::function<void(const Notice&)>& warn);

}  // namespace trainer::inference
