// Where the time of steps went, as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/step_times.h"

namespace trainer::hooks {

// {"steps":100,"ranks":[{"name":"replica 0","data_wait_seconds":0.001,...},...],
// "straggler":{"rank":1,...}}: seconds of a step, the mean over the steps. `names` are those of the
// ranks. "straggler" is null when there is none.
nlohmann::ordered_json step_times_json(const engine::StepTimes& times,
                                       const std::vector<std::string>& names);

}  // namespace trainer::hooks
