// Writes the throughput of steps that compute features, and of steps that read them, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "hooks/input_throughput.h"

namespace trainer::hooks {

// Returns {"images_per_second_computing_features":90.9,"images_per_second_cached_features":30441.0}
// with the numbers that are known.
nlohmann::ordered_json throughput_json(const InputThroughput& throughput);

}  // namespace trainer::hooks
