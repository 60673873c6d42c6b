// Predicts the time of a step on many workers from that on one worker and from the link between
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "commands/plan/link.h"
#include "commands/plan/step_profile.h"
#include "config/config.h"
#include "results/field.h"

namespace trainer::commands {

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
