// The choice of the fastest of several ways to do one piece of work, by running them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/types.h"

namespace trainer::backend::cuda {

// Device memory that a candidate works on.
struct TunedMemory {
  std::int64_t bytes = 0;        // 0: the candidate gets a null address
  DType type = DType::kFloat32;  // the type of the random numbers in it
};

// A way to do the work.
struct Candidate {
  std::string name;                 // "cudnn engine 17, tensor cores, 512 KiB"
  std::vector<TunedMemory> memory;  // allocated for `run`, which gets the addresses
  // Enqueues the work once. Addresses are multiples of 256.
  std::function<void(const std::vector<void*>& memory, cudaStream_t stream)> run;
};

// Times candidates on one device.
class CandidateTimer {
 public:
  virtual ~CandidateTimer() = default;
  // Seconds that the device takes for one run. Throws DeviceError when it cannot run.
  virtual double seconds(const Candidate& candidate) = 0;
};

// The index of the fastest candidate, the first among equals. Candidates that fail are left out; 0
// when all do.
std::size_t fastest(const std::vector<Candidate>& candidates, CandidateTimer& timer);

// While it lives, no other thread of the process looks up, times or stores a choice: replicas make
// the same choice, and none is measured beside another.
std::unique_lock<std::mutex> lock_tuning();

}  // namespace trainer::backend::cuda
