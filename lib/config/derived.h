// Derives configs and values from a config.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"

namespace trainer::config {

// Returns the config for the same training with another number of replicas, which divide the same
// global batch without scaling the learning rate. Values for one replica (parallel.lanes) become
// automatic. Throws ConfigError if the global batch cannot be divided.
Config with_replicas(const Config& config, std::int64_t replicas);

// Returns whether run.best, train.early_stop, train.stop_at or the schedule uses the metric of this
// name ("auc"), of any split.
bool names_metric(const Config& config, std::string_view name);

// Returns the leaves (config.h) of one section, such as "parallel" or "data.normalize".
std::vector<std::pair<std::string, std::string>> leaves(const Config& config,
                                                        std::string_view section);

// Returns the key whose value a leaf takes when it is left out, such as pool_size for the strides
// of a pooling; "" if there is no such key.
std::string default_key(const std::string& leaf);

// Returns the values that must be equal in all processes of a job, as YAML: all but the folders to
// which a process writes and the cores that it uses.
std::string common_config(Config config);

}  // namespace trainer::config
