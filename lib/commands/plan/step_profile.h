// Measures the phases of one worker's step, without other workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/open.h"
#include "config/config.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "model/table.h"

namespace trainer::commands {

struct StepProfile {
  struct Bucket {
    std::int64_t bytes = 0;  // gradients that are reduced at once
    double ready = 0;        // seconds from the start of the step until they are known
  };
  std::int64_t samples = 0;              // samples per step
  double seconds = 0;                    // the time of a step
  double constant = 0;                   // the part of it that does not depend on the samples
  std::vector<Bucket> buckets;           // sorted by the time when they are sent
  std::vector<std::int64_t> statistics;  // bytes of each message of batch norm in a step
  std::string source;                    // "measured in 80 steps on cpu, ..."

  std::int64_t gradient_bytes() const;
};

// Trains for about `seconds` and records when each bucket is ready to be sent; then trains with a
// quarter of the batch, to find the time that does not depend on the batch size.
StepProfile measure_step(const config::Config& config, const backend::Platform& platform,
                         const graph::Graph& model, const data::Dataset& dataset, double seconds);

// Estimates the profile from the time of a whole step. Forward, and backward with twice the work
// down to the first trained layer, take time by their FLOPs. All times grow with the samples.
StepProfile make_profile(double step_seconds, const std::string& source,
                         const config::Config& config, const std::vector<model::LayerRow>& layers);

// Returns the time of a step of `samples` samples by the last line with a throughput in a file that
// `trainer benchmark --json` or `trainer train --json` has written. Throws DataError.
double read_step_seconds(const std::string& path, std::int64_t samples);

}  // namespace trainer::commands
