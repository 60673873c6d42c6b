// The least time that a layer could take on this machine: its roofline.
#pragma once

#include <cstdint>

#include "commands/profile/layer_profile.h"

namespace trainer::commands {

// What all threads of a process together get from memory and from their cores' second caches, bytes
// a second, reading two bytes for each that they write; 0 where it was not measured.
struct Bandwidth {
  double memory = 0;
  double cache = 0;
  double cache_bytes = 0;  // of the threads' second caches together
};

// Of so many threads of the host, in about so many seconds.
Bandwidth measure_bandwidth(int threads, double seconds = 0.6);

struct Limits {
  double peak_flops = 0;  // a second, of all ranks; 0 where it was not measured
  Bandwidth bandwidth;
};

// Seconds: the longer of its arithmetic at the peak and of its operands' way through memory, or
// through the second caches where all of them fit there. 0 for what is no layer or without limits.
double least_seconds(const ProfileRow& row, const Limits& limits);

}  // namespace trainer::commands
