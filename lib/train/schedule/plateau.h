// schedule.reduce_on_plateau: a learning rate that depends on the evaluations so far, as Keras's
// ReduceLROnPlateau.
#pragma once

#include <cstdint>
#include <optional>

#include "config/config.h"

namespace trainer::train {

// What the evaluations so far have made of the rate. A checkpoint stores it, so that every rank and
// a resumed run go on from the same.
struct PlateauState {
  double factor = 1;  // of the rate
  std::optional<double> best;
  std::int64_t waited = 0;    // evaluations without improvement
  std::int64_t cooldown = 0;  // evaluations that are not counted yet
  std::int64_t counted = -1;  // step of the last one
  bool operator==(const PlateauState&) const = default;
};

// The state after an evaluation of step `step`; a step counts once. `rate`: the schedule's rate
// without reductions. A value that is not a number never improves.
PlateauState after_evaluation(PlateauState state, const config::ReduceOnPlateauSchedule& schedule,
                              std::int64_t step, double value, double rate);

}  // namespace trainer::train
