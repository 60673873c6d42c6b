#include "backend/cuda/plans/tuning.h"

#include <limits>

#include "base/error.h"

namespace trainer::backend::cuda {

std::size_t fastest(const std::vector<Candidate>& candidates, CandidateTimer& timer) {
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    double seconds = least;
    try {
      seconds = timer.seconds(candidates[i]);
    } catch (const DeviceError&) {
      continue;
    }
    if (seconds >= least) continue;
    best = i;
    least = seconds;
  }
  return best;
}

std::unique_lock<std::mutex> lock_tuning() {
  static std::mutex mutex;
  return std::unique_lock(mutex);
}

}  // namespace trainer::backend::cuda
