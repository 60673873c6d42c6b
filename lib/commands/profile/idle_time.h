// The time of a step that no record of its device covers.
#pragma once

#include <vector>

#include "backend/work_record.h"
#include "commands/profile/layer_profile.h"

namespace trainer::commands {

// Seconds of all steps and all threads of a rank together.
struct IdleTime {
  double waiting = 0;  // a thread waits while another one of the rank works
  double outside = 0;  // no thread works: calls are prepared, started and ended
};
// Returns the idle time of the parts of steps in which the rank has its batch. Records of
// kReductionThread do not count.
IdleTime idle_time(const std::vector<backend::WorkRecord>& rank,
                   const std::vector<ProfileTimeline::Step>& steps);

}  // namespace trainer::commands
