// The time that a training step should take on a GPU, by its arithmetic and its memory traffic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/gpu_model.h"

namespace trainer::commands {

// Seconds if matrix products run at the rate of large ones, and if they reach 60 % of it, which is
// usual for the convolutions of image classifiers.
struct TimeRange {
  double fast = 0, slow = 0;
  TimeRange& operator+=(const TimeRange& more) {
    fast += more.fast;
    slow += more.slow;
    return *this;
  }
};

struct Roofline {
  struct Layer {
    std::string name;
    TimeRange forward, backward;
    double flops = 0, bytes = 0;  // sums of both
    double memory_bound = 0;      // share of the fast time in which memory is what limits
    std::int64_t kernels = 0;     // kernels of both, of the backend and of libraries
  };
  std::string gpu;           // "NVIDIA H100 80GB HBM3"
  std::int64_t samples = 0;  // samples per step
  std::vector<Layer> layers;
  TimeRange update;               // the update of all parameters
  TimeRange step;                 // all together
  backend::InstructionWork work;  // the work of a step

  std::int64_t kernels() const { return work.kernels + work.library_calls; }
};

// Returns the times of `samples` samples by the instructions of a planned device, all of which have
// their work. With `tf32`, float32 products are rounded to TF32. Every instruction takes the longer
// of its arithmetic and its memory traffic, and at least its launches.
Roofline roofline(const std::vector<backend::InstructionInfo>& instructions, std::int64_t samples,
                  bool tf32, const backend::GpuModel& gpu);

}  // namespace trainer::commands
