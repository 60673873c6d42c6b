// Memory lies on the node of the thread that writes a page of it first. Activations and gradients
// are first written by the lane that they belong to; parameters would be by whoever loads them.
#pragma once

#include "backend/cpu/lanes/worker_threads.h"
#include "backend/cpu/variables.h"

namespace trainer::backend::cpu {

// Each worker touches its slice of the parameters, slots and averages, which it will update; values
// stay as they are. Pages that have been written before stay where they are, too.
void touch_slices(const CpuVariables& variables, WorkerThreads& workers);

}  // namespace trainer::backend::cpu
