// The keys by which a measured throughput is compared.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "model/table.h"
#include "results/train_events.h"

namespace trainer::commands {

// Returns the keys of a training of the model.
results::MeasuredKeys measured_keys(const std::vector<model::LayerRow>& layers,
                                    const config::Config& config);

// Throws DataError unless the keys in a file that `trainer benchmark --json` or `trainer train
// --json` has written equal those of the config.
void check_measured(const std::string& path, const std::vector<model::LayerRow>& layers,
                    const config::Config& config);

}  // namespace trainer::commands
