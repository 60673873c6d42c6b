// Gradients that a worker of parameter servers makes one after another.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "train/features/feed.h"
#include "train/parameter_servers.h"

namespace trainer::train {

// A worker's own share of the samples, batch by batch, and what it gives the servers of them.
//
// Of W workers, worker w takes part w of the batches of W times train.batch_size samples in the
// order of all: no sample comes twice in an epoch, and one worker takes what a process without
// servers would. How far another worker is does not matter. A gradient that was refused is not
// tried again: its samples are passed over.
class GradientStream {
 public:
  // Goes on where a worker would be after `step` updates of the job. Everything must outlive it.
  GradientStream(const config::Config& config, const data::Dataset& images,
                 engine::Replicas& engine, ParameterServers& servers, std::int64_t step);

  // One gradient, computed, given, and answered with the newest parameters.
  struct Step {
    server::Pushed pushed;
    double loss = 0;  // sum over the samples
    std::int64_t correct = 0, samples = 0;
    std::optional<double> penalty;
    // Where a loss that is not finite was first seen, or "the loss". The gradient was not given.
    std::optional<std::string> not_finite;
    std::string blame;  // the samples then
  };
  Step next();
  double seconds_waited() const { return feed_->seconds_waited(); }

 private:
  std::int64_t samples_of(std::int64_t step) const;

  const data::Dataset& images_;
  engine::Replicas& engine_;
  ParameterServers& servers_;
  const StepPlan plan_;    // of this worker: as if all went in step
  std::int64_t step_ = 0;  // of this plan
  std::unique_ptr<Feed> feed_;
};

}  // namespace trainer::train
