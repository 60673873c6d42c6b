// The keys by which a measured throughput is compared.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "model/table.h"

namespace trainer::commands {

// Names and values that must be equal for two measured step times to be comparable.
using MeasuredKeys = std::vector<std::pair<std::string, std::int64_t>>;

// The model's size, the batch size and the number of replicas.
MeasuredKeys measured_keys(const std::vector<model::LayerRow>& layers,
                           const config::Config& config);

// Prints {"event":"model","parameters":...}: the keys of one training.
void print_model_json(const MeasuredKeys& keys, std::ostream& out);

// Throws DataError unless the keys in a file that `trainer benchmark --json` or `trainer train
// --json` has written equal those of the config.
void check_measured(const std::string& path, const std::vector<model::LayerRow>& layers,
                    const config::Config& config);

}  // namespace trainer::commands
