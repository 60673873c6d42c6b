// The sections evaluate and run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "config/sections/duration.h"

namespace trainer::config {

struct Evaluate {
  std::optional<std::int64_t> batch_size;  // the training batch size when left out
  std::int64_t top_k = 5;                  // also reported, when there are more classes than that
  // Of `evaluate --follow`, in seconds; the first two are those of Estimator's EvalSpec.
  double start_delay_secs = 120;  // before the first evaluation
  double throttle_secs = 600;     // at least, between the starts of two evaluations
  double timeout_secs = 3600;     // without a new checkpoint: give up
};

struct Run {
  std::string dir;  // runs/<name> when empty
  Duration checkpoint_every{1, Duration::Unit::kEpochs};
  std::int64_t keep = 2;
  std::string best =
      "validation/accuracy";  // metric whose best checkpoint is kept too; "" for none
  Duration log_every{10, Duration::Unit::kSteps};
  Duration summary_every{10, Duration::Unit::kSteps};  // TensorBoard and metrics files
  Duration evaluate_every{1, Duration::Unit::kEpochs};
  bool tensorboard = true;
  bool ledger = true;                    // ledger.csv: a row a step
  std::optional<double> price_per_hour;  // of one replica's device
  SourceLoc loc;
};

}  // namespace trainer::config
