// Times candidates by events of a device.
#pragma once

#include <memory>

#include "backend/cuda/plans/tuning.h"

namespace trainer::backend::cuda {

// Of a device that is here. The median of several runs, after one that is not counted. Memory is
// taken for a candidate at a time and holds zeros.
std::unique_ptr<CandidateTimer> make_event_timer(int device);

}  // namespace trainer::backend::cuda
