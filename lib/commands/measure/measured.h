// The keys by which a measured throughput is compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/table.h"
#include "results/field.h"

namespace trainer::commands {

// The values that must be equal for two measured step times to be comparable: the model's size, the
// batch size and the number of replicas. Only the batch size is set of what is not a training.
struct MeasuredKeys {
  std::optional<std::int64_t> parameters = {}, trainable_parameters = {}, flops = {};
  std::int64_t batch_size = 0;
  std::optional<std::int64_t> replicas = {};
};
void fields(results::FieldVisitor& v, MeasuredKeys& keys);

MeasuredKeys measured_keys(const std::vector<model::LayerRow>& layers,
                           const config::Config& config);

// The line of `train --json` on the model.
struct ModelEvent {
  MeasuredKeys keys;
};
void fields(results::FieldVisitor& v, ModelEvent& event);

// Throws DataError unless the keys in a file that `trainer benchmark --json` or `trainer train
// --json` has written equal those of the config.
void check_measured(const std::string& path, const std::vector<model::LayerRow>& layers,
                    const config::Config& config);

}  // namespace trainer::commands
