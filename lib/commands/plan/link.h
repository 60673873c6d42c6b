// The cost of sending bytes between workers, and of sums over them.
#pragma once

#include <cstdint>
#include <string>

#include "config/sections/parallel.h"

namespace trainer::commands {

// Every worker has one connection into a network that is never congested: it sends and receives at
// full bandwidth at the same time, whatever the others do.
struct Link {
  double bandwidth = 0;    // bytes per second, each way
  double latency = 20e-6;  // seconds from a message's start to its first byte at the other end
};

// Returns bytes per second. Reads "100Gbit" or "100 Gbit/s", "12.5GB/s", "800 Mbit", "1.5 GiB",
// where bit is 1/8 of a byte, K, M, G and T are powers of 1000, and Ki, Mi and Gi are powers of
// 1024. Throws a ConfigError that begins with `name`.
double parse_bandwidth(const std::string& name, const std::string& text);
// "120ms", "20 us", "1.5 s", "300ns": seconds, above 0 unless `zero`. Throws ConfigError that
// begins with `name`.
double parse_seconds(const std::string& name, const std::string& text, bool zero = false);

// Returns the seconds of an all-reduce of n bytes over p ranks, with latency a and bandwidth B, by
// the algorithms of cluster/collective:
//   one message   a + n (p - 1) / B, up to 64 KiB of all ranks
//   ring          2 (p - 1) (a + n / (p B)), above 4 MiB: with collective: ring, or where p is not
//                 a power of two
//   slices        2 a + 2 n (p - 1) / (p B), up to 4 MiB in these cases
//   halves        (2 log2(p) - 1) a + 2 n (p - 1) / (p B); up to 16 KiB log2(p) (a + n / B)
//                 (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations
//                 in MPICH, 2005)
// Adding the numbers up costs nothing.
double all_reduce_seconds(config::Collective collective, std::int64_t bytes, std::int64_t ranks,
                          const Link& link);

}  // namespace trainer::commands
