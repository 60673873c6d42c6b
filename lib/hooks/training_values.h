// The values of training that TensorBoard and MLflow receive.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hooks/device_window.h"
#include "hooks/metric_window.h"

namespace trainer::hooks {

// Returns the values of the steps of a window by name: "loss", "accuracy" (unless it is NaN),
// "learning_rate", "step_time/forward", ... Times are medians over the ranks; those of several
// ranks have "_min" and "_max", too. The values of a device have its name: "gpu0/power_watts".
// Starts the next interval of `devices`.
std::vector<std::pair<std::string, double>> list_training_values(const MetricWindow& window,
                                                                 DeviceWindow& devices,
                                                                 bool has_servers);

}  // namespace trainer::hooks
