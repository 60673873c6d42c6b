// Writes the times of steps and their throughput as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/step_times.h"
#include "hooks/input_throughput.h"

namespace trainer::hooks {

// Returns {"steps":100,"ranks":[{"name":"replica 0","data_wait_seconds":0.001,...},...],
// "straggler":{"rank":1,...}} with the mean seconds of a step. `names` are the names of the ranks.
// "straggler" is null if there is none.
nlohmann::ordered_json step_times_json(const engine::StepTimes& times,
                                       const std::vector<std::string>& names);

// Returns {"images_per_second_computing_features":90.9,"images_per_second_cached_features":30441.0}
// with the numbers that are known.
nlohmann::ordered_json throughput_json(const InputThroughput& throughput);

}  // namespace trainer::hooks
