// The least time that a layer could take on this machine: its roofline.
#pragma once

#include "backend/open.h"
#include "commands/profile/layer_profile.h"
#include "config/config.h"

namespace trainer::commands {

// The bytes per second that all threads of a process together transfer from memory and from the
// second caches of their cores, while they read two bytes for each byte that they write; 0 if it
// was not measured.
struct Bandwidth {
  double memory = 0;
  double cache = 0;
  double cache_bytes = 0;  // the threads' second caches together
};

// Measures the bandwidth of `threads` threads of the host in about `seconds`.
Bandwidth measure_bandwidth(int threads, double seconds = 0.6);

// Returns the FLOPs per second of a replica's device in large 3x3 convolutions by the direct
// method, at the config's precision: the best of at least four runs, about `seconds` in all.
double measure_peak(const config::Config& config, const backend::Platform& platform,
                    double seconds = 1);

struct Limits {
  double peak_flops = 0;  // a second, of all ranks; 0 where it was not measured
  Bandwidth bandwidth;
};

// Returns the least seconds of a row: the longer of its arithmetic at the peak and of the transfer
// of its operands through memory, or through the second caches if all of them fit there. Returns 0
// for a row that is not a layer, and without limits.
double least_seconds(const ProfileRow& row, const Limits& limits);

}  // namespace trainer::commands
