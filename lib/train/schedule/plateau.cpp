#include "train/schedule/plateau.h"

#include <algorithm>
#include <cmath>

#include "hooks/hooks.h"

namespace trainer::train {

PlateauState after_evaluation(PlateauState state, const config::ReduceOnPlateauSchedule& schedule,
                              std::int64_t step, double value, double rate) {
  if (step == state.counted) return state;
  state.counted = step;
  if (state.cooldown > 0) {
    --state.cooldown;
    state.waited = 0;
  }
  const double gain = hooks::larger_is_better(schedule.metric)
                          ? value - state.best.value_or(-HUGE_VAL)
                          : state.best.value_or(HUGE_VAL) - value;
  if (gain > schedule.min_delta) {
    state.best = value;
    state.waited = 0;
    return state;
  }
  if (state.cooldown > 0 || ++state.waited < schedule.patience) return state;
  const double current = rate * state.factor;
  if (current > schedule.min_learning_rate) {
    const double reduced = std::max(current * schedule.factor, schedule.min_learning_rate);
    state.factor = reduced / rate;
    state.cooldown = schedule.cooldown;
    state.waited = 0;
  }
  return state;
}

}  // namespace trainer::train
