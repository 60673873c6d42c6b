// What a measured throughput belongs to.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "model/model.h"

namespace trainer::measure {

// Keys of JSON that say which model, batch size and replicas were measured: "parameters":1200,...
std::string measured_keys(const std::vector<model::LayerRow>& layers, const config::Config& config);

// Throws DataError unless a file that `trainer benchmark --json` or `trainer train --json` has
// written says the same of what it has measured.
void check_measured(const std::string& path, const std::vector<model::LayerRow>& layers,
                    const config::Config& config);

}  // namespace trainer::measure
