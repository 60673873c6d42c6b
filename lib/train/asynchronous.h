// The tasks of a job with parameter servers, but for the chief's run folder: gradients that a
// worker makes one after another, and the loops of a worker and of a server.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "train/feed.h"
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
  const StepPlan plan_;  // of this worker: as if all went in step
  const graph::LossKind loss_;
  std::int64_t step_ = 0;  // of this plan
  std::unique_ptr<Feed> feed_;
};

// A worker that is not the chief: gives gradients until the job is over or a signal comes. The
// engine is as a new run begins, weights imported. Returns "done" or "interrupted".
std::string work(const config::Config& config, const data::Datasets& data, engine::Replicas& engine,
                 ParameterServers& servers);

// A ps task, until the job is over; returns as work() does. A signal asks the chief to save and to
// end the job. Throws PeerError when the chief goes or does not come. `say`: who comes and goes.
std::string serve(const config::Config& config, const cluster::Identity& who,
                  const std::function<void(const std::string&)>& say);

}  // namespace trainer::train
