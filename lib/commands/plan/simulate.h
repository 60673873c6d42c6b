// Predicts the time of a step on many workers from that on one worker and from the link between
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "commands/plan/step_profile.h"
#include "config/config.h"
#include "results/field.h"

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

struct Forecast {
  std::int64_t workers = 1;
  std::int64_t samples = 0;  // samples per step, of all workers
  double step_seconds = 0;
  double images_per_second = 0;  // the rate of all workers together
  // Relative to one worker: images_per_second / (workers * those of one).
  double efficiency = 1;
  double communication = 0;  // seconds that messages take in a step
  double exposed = 0;        // seconds of communication that lengthen the step
  double hidden() const { return communication > 0 ? 1 - exposed / communication : 0; }
};

// Predicts one step of `samples` samples per worker. Buckets go over the link one after the other,
// each once it is ready and the one before it is through; the update waits for the last. Batch
// norm's messages and the one in which workers agree on what comes next (nothing is computed
// meanwhile) are added. Times of the profile are proportional to the samples, except those that it
// calls constant.
Forecast forecast(const StepProfile& profile, std::int64_t workers, std::int64_t samples,
                  config::Collective collective, const Link& link);

struct Simulation {
  Link link;
  StepProfile profile;
  std::vector<Forecast> weak;    // the profile's samples per worker
  std::vector<Forecast> strong;  // the profile's samples in all
};
void fields(results::FieldVisitor& v, Simulation& simulation);
// 1, 2, 4, ... and `workers`; strong scaling as far as each worker has a sample.
Simulation simulate(const StepProfile& profile, std::int64_t workers, config::Collective collective,
                    const Link& link);

// The simulation that a user requests.
struct SimulationRequest {
  std::int64_t workers = 0;  // 0: no simulation
  std::string link, latency = "20us";
  // The time of a step of one worker. If it is empty, it is read from the file `measured` (see
  // read_step_seconds()); if both are empty, it is measured.
  std::string step_time, measured;
  double seconds = 2;  // time to measure
};
// Throws ConfigError for what cannot be read, DataError where the data that a measurement needs, or
// the model, cannot be had.
Simulation simulate(const SimulationRequest& request, const config::Config& config,
                    const backend::Platform& platform, const std::optional<graph::Graph>& model);

void print_simulation(const Simulation& simulation, std::ostream& out);

}  // namespace trainer::commands
