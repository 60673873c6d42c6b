// Measures the phases of one worker's step, without other workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "model/table.h"

namespace trainer::commands {

struct StepProfile {
  struct Bucket {
    std::int64_t bytes = 0;  // of gradients that are reduced at once
    double ready = 0;        // seconds from the start of the step until they are known
  };
  std::int64_t samples = 0;              // of a step
  double seconds = 0;                    // of a step
  double constant = 0;                   // of these, what does not depend on the samples
  std::vector<Bucket> buckets;           // in the order in which they go
  std::vector<std::int64_t> statistics;  // bytes of each message of batch norm in a step
  std::string source;                    // "measured in 80 steps on cpu, ..."

  std::int64_t gradient_bytes() const;
};

// Trains for about `seconds` and records when each bucket is ready to be sent; then trains with a
// quarter of the batch, to find the time that does not depend on the batch size.
StepProfile measure_step(const config::Config& config, const graph::Graph& model,
                         const data::Dataset& dataset, double seconds);

// From the time of a whole step: forward, and backward of twice the work down to the first trained
// layer, take time by their FLOPs; everything grows with the samples.
StepProfile make_profile(double step_seconds, const std::string& source,
                         const config::Config& config, const std::vector<model::LayerRow>& layers);

// Returns the time of a step of `samples` samples by the last line with a throughput in a file that
// `trainer benchmark --json` or `trainer train --json` has written. Throws DataError.
double read_step_seconds(const std::string& path, std::int64_t samples);

}  // namespace trainer::commands
