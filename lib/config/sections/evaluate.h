// The section evaluate.
#pragma once

#include <cstdint>
#include <optional>

namespace trainer::config {

class FieldVisitor;

struct Evaluate {
  std::optional<std::int64_t> batch_size;  // the training batch size when left out
  std::int64_t top_k = 5;                  // reported if there are more classes than that
  // Times of `evaluate --follow`, in seconds; the first two are those of Estimator's EvalSpec.
  double start_delay_secs = 120;  // the wait before the first evaluation
  double throttle_secs = 600;     // minimum between the starts of two evaluations
  double timeout_secs = 3600;     // the time without a new checkpoint after which it ends
};

void fields(FieldVisitor& v, Evaluate& s);

}  // namespace trainer::config
