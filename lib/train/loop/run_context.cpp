#include "train/loop/run_context.h"

#include <utility>

#include "base/error.h"
#include "train/schedule/stages.h"

namespace trainer::train {

RunContext::RunContext(Job& run, ServerCalls calls)
    : job(run),
      servers(std::move(calls)),
      scheduled_rate(staged_learning_rate(run.config, run.plan)),
      start_seconds(run.clock()) {
  if (std::holds_alternative<config::ReduceOnPlateauSchedule>(run.config.schedule.kind)) {
    state.plateau.emplace();
  }
}

std::string RunContext::phase(const std::string& what) const {
  return concat(what, ", last checkpoint at step ", saved_step);
}

}  // namespace trainer::train
