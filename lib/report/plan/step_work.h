// The arithmetic of a training step, by the graphs that are built for it.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "graph/graph.h"

namespace trainer::report {

// FLOPs of one sample, of convolutions and dense layers as graph::flops() counts them.
struct StepWork {
  std::int64_t frozen = 0;   // of the frozen layers at the start, which may be done once a sample
  std::int64_t forward = 0;  // of the others
  // Gradients of what is trained, and of what lies between that and the loss.
  std::int64_t backward = 0;

  std::int64_t total() const { return frozen + forward + backward; }
  StepWork with_features() const { return {0, forward, backward}; }  // kept ones
};

// `model`: as of model::build_model.
StepWork step_work(const graph::Graph& model, const config::Config& config);

}  // namespace trainer::report
