// Computes the gradients of a worker with parameter servers, one after another.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "train/features/feed.h"
#include "train/servers/parameter_servers.h"

namespace trainer::train {

// Reads a worker's share of the samples batch by batch and pushes a gradient for each batch.
//
// Worker w of W takes part w of each batch of W * train.batch_size samples in the order of all
// samples: no sample is repeated in an epoch, and a single worker takes the batches of a process
// without servers. Workers do not wait for each other. A rejected gradient is not computed again:
// its samples are skipped.
class GradientStream {
 public:
  // Starts where a worker would be after `step` updates of the job. All arguments must outlive it.
  GradientStream(const config::Config& config, const data::Dataset& images, engine::Engine& engine,
                 ParameterServers& servers, std::int64_t step);

  // A gradient that was computed and pushed. Afterwards the engine has the newest parameters.
  struct Step {
    server::Pushed pushed;
    double loss = 0;  // sum over the samples
    std::int64_t correct = 0, samples = 0;
    std::optional<double> penalty;
    // The layer in which a value was first not finite, or "the loss". If set, the gradient was not
    // pushed.
    std::optional<std::string> not_finite;
    std::string blame;          // set with not_finite: the samples of the batch
    backend::PhaseTimes times;  // all_reduce: the exchange with the servers
  };
  Step next();
  std::string describe_input() const { return feed_->describe(); }
  double seconds_waited() const { return feed_->seconds_waited(); }

 private:
  std::int64_t count_samples(std::int64_t step) const;

  const data::Dataset& images_;
  engine::Engine& engine_;
  ParameterServers& servers_;
  const TrainingPlan plan_;  // the plan of this worker, as if all workers trained in step
  std::int64_t step_ = 0;    // the next step of plan_
  std::unique_ptr<Feed> feed_;
};

}  // namespace trainer::train
