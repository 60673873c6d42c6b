// What a machine can do.
#pragma once

#include "config/config.h"

namespace trainer::commands {

// FLOPs a second of a replica's device in large 3x3 convolutions by the direct method, at the
// config's precision: the best of some runs, at least four, that take about so many seconds.
double measure_peak(const config::Config& config, double seconds = 1);

}  // namespace trainer::commands
