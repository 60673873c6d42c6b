// The arithmetic of a training step, by the graphs that are built for it.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "graph/graph.h"

namespace trainer::commands {

// FLOPs of convolutions and dense layers for one sample, counted by graph::flops().
struct StepWork {
  // The frozen layers at the start, which may be computed once per sample.
  std::int64_t frozen = 0;
  std::int64_t forward = 0;  // the other layers
  // The gradients of trained parameters, and of all values between these and the loss.
  std::int64_t backward = 0;

  std::int64_t total() const { return frozen + forward + backward; }
  StepWork with_features() const { return {0, forward, backward}; }  // features are kept
};

// Returns the arithmetic of the graph that model::build_model() returns.
StepWork step_work(const graph::Graph& model, const config::Config& config);

}  // namespace trainer::commands
