// Times candidates by events of a device.
#pragma once

#include <memory>

#include "backend/cuda/plans/tuning.h"

namespace trainer::backend::cuda {

// Times on `device`, which must be present: the median of several measurements, after a run that is
// not counted. The memory of a candidate is allocated for its measurement. It holds random numbers,
// because a device computes faster on zeros, for which it needs less power, and is not in the L2
// cache at the start of a run.
std::unique_ptr<CandidateTimer> make_event_timer(int device);

}  // namespace trainer::backend::cuda
