// A page of memory lies on the node of the thread that writes it first. A lane is the first to
// write its activations and gradients; the first to write parameters would be the thread that loads
// them.
#pragma once

#include "backend/cpu/lanes/lane_threads.h"
#include "backend/cpu/variables.h"

namespace trainer::backend::cpu {

// Lets each lane touch its slice of the parameters, slots and averages, which it will update.
// Values do not change. Pages that have been written before stay where they are.
void touch_slices(const CpuVariables& variables, LaneThreads& lanes);

}  // namespace trainer::backend::cpu
