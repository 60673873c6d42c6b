// Measures the peak arithmetic of a machine.
#pragma once

#include "backend/open.h"
#include "config/config.h"

namespace trainer::commands {

// Returns the FLOPs per second of a replica's device in large 3x3 convolutions by the direct
// method, at the config's precision: the best of at least four runs, about `seconds` in all.
double measure_peak(const config::Config& config, const backend::Platform& platform,
                    double seconds = 1);

}  // namespace trainer::commands
