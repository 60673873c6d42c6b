// Implements schedule.reduce_on_plateau: a learning rate that depends on the evaluations so far, as
// in Keras's ReduceLROnPlateau.
#pragma once

#include <cstdint>
#include <optional>

#include "config/sections/schedule.h"

namespace trainer::train {

// The effect of the evaluations so far on the rate. A checkpoint stores it, so that every rank and
// a resumed run continue from the same state.
struct PlateauState {
  double factor = 1;  // multiplies the rate
  std::optional<double> best;
  std::int64_t waited = 0;    // evaluations without improvement
  std::int64_t cooldown = 0;  // next evaluations that do not count
  std::int64_t counted = -1;  // step of the last evaluation that was counted
  bool operator==(const PlateauState&) const = default;
};

// Returns the state after an evaluation of step `step`; a step counts once. `rate` is the
// schedule's rate without reductions. A NaN never improves.
PlateauState after_evaluation(PlateauState state, const config::ReduceOnPlateauSchedule& schedule,
                              std::int64_t step, double value, double rate);

}  // namespace trainer::train
