// What the kernels of one call read from and leave in device memory, so that a captured graph can
// be replayed with other numbers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/phase_times.h"

namespace trainer::backend::cuda {

// The run-time scalars of a call; written by the kernel that begins it.
struct StepScalars {
  float learning_rate;
  float gradient_scale;  // 1 / true samples of the global batch, without the loss scale
  std::uint64_t update;  // 1-based number of the update
  std::uint64_t first_sample;
  std::uint32_t accumulate;  // 0 or 1, as all flags here
  std::uint32_t apply;
  std::uint32_t stop_when_not_finite;
  std::uint32_t samples;  // the samples of this rank
};

// The state that later calls read. It starts as zeros, except the scales and both finite flags,
// which are 1.
struct StepState {
  float loss_scale;            // the factor of gradients; 1 without float16
  float gradients_scale;       // loss_scale when the gradients of this update were made
  std::uint32_t good_updates;  // updates since the last change of the loss scale
  std::uint32_t finite;        // this call's losses are finite; once reduced, all ranks' and calls'
  std::uint32_t all_finite;    // the losses since the last call that did not accumulate are finite
  std::uint32_t stopped;       // a call was not finite (stop_when_not_finite)
  std::uint32_t moved;         // moving statistics have followed a call since the last update
  std::uint32_t updates_now;   // this call's update kernels change values
  std::uint32_t overflowed;    // a gradient of this update is not finite, though the losses are
};

// The result of one call, laid out as backend::CallResult.
struct DeviceResult {
  double loss;
  std::int64_t correct;
  double penalty;
  bool finite;
  bool skipped;            // the update was left out because a scaled gradient overflowed
  bool update_not_finite;  // always false
  double gradient_norm;
  PhaseTimes times;
};

}  // namespace trainer::backend::cuda
