// GPUs that can be planned for where there is none: what the CUDA runtime and data sheets say of
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/open.h"

namespace trainer::backend {

struct GpuModel {
  std::string name;  // as it is asked for: "h100"
  Gpu gpu;
  std::int64_t shared_memory = 0;     // bytes a block may have after opting in
  std::int64_t cache = 0;             // bytes of L2
  std::int64_t clock_khz = 0;         // of the multiprocessors
  std::int64_t memory_clock_khz = 0;  // two transfers a cycle
  std::int64_t memory_bus = 0;        // bits
  // Dense products of 16-bit numbers, of TF32 and of float32, FLOP/s: the data sheet's highest.
  double half_rate = 0, tf32_rate = 0, float_rate = 0;
  double large_product = 0;  // share of these that a large matrix product reaches
  double bandwidth = 0;      // bytes/s of the device's memory
};

const std::vector<GpuModel>& gpu_models();
// The model of this name; null when there is none.
const GpuModel* find_gpu_model(const std::string& name);
// "a100, h100, h200 or b200"
std::string gpu_model_names();
// The description by which cuDNN plans for it (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
std::string cudnn_properties(const GpuModel& model);

}  // namespace trainer::backend
