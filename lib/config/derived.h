// Configs that follow from a config.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"

namespace trainer::config {

// The config for the same training with another number of replicas: they divide the same global
// batch, and the learning rate is not scaled. Values for one replica (parallel.lanes) become
// automatic. Throws ConfigError when the global batch cannot be divided.
Config with_replicas(const Config& config, std::int64_t replicas);

// Whether run.best, train.early_stop, train.stop_at or the schedule goes by the metric of this name
// ("auc"), of any split.
bool names_metric(const Config& config, std::string_view name);

// The leaves (config.h) of one section, such as "parallel" or "data.normalize".
std::vector<std::pair<std::string, std::string>> leaves(const Config& config,
                                                        std::string_view section);

// The key whose value a leaf takes when it is left out: the pool size for a pool's strides. "" when
// no other key says it.
std::string default_key(const std::string& leaf);

// The values that must be equal in all processes of a job, as YAML: all but where a process writes
// and how many cores it uses.
std::string common_config(Config config);

}  // namespace trainer::config
