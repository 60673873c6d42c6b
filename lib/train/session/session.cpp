#include "train/session/session.h"

#include "base/error.h"
#include "train/steps/stages.h"

namespace trainer::train {

Session::Session(Job& run)
    : job(run), scheduled_rate(learning_rate_of(run.config, run.plan)), start_seconds(run.clock()) {
  if (std::holds_alternative<config::ReduceOnPlateauSchedule>(run.config.schedule.kind)) {
    state.plateau.emplace();
  }
}

std::string Session::phase(const std::string& what) const {
  return concat(what, ", last checkpoint at step ", saved_step);
}

}  // namespace trainer::train
