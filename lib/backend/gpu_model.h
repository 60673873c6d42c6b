// GPUs that a run can be planned for on a machine without them, with their properties from the CUDA
// runtime and from data sheets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/open.h"

namespace trainer::backend {

struct GpuModel {
  std::string name;  // the name on the command line: "h100"
  Gpu gpu;
  std::int64_t shared_memory = 0;     // bytes per block after opting in
  std::int64_t cache = 0;             // bytes of L2
  std::int64_t clock_khz = 0;         // the clock of the multiprocessors
  std::int64_t memory_clock_khz = 0;  // two transfers per cycle
  std::int64_t memory_bus = 0;        // bits
  // The FLOP/s of dense products of 16-bit numbers, of TF32 and of float32 by the data sheet.
  double half_rate = 0, tf32_rate = 0, float_rate = 0;
  double large_product = 0;  // the share of these rates that a large matrix product reaches
  double bandwidth = 0;      // bytes/s of the device's memory
};

const std::vector<GpuModel>& gpu_models();
// Returns the model of this name; null if there is none.
const GpuModel* find_gpu_model(const std::string& name);
// Returns the names of all models as text: "a100, h100, h200 or b200".
std::string gpu_model_names();
// Returns the description by which cuDNN plans for a model, the attribute
// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION.
std::string cudnn_properties(const GpuModel& model);

}  // namespace trainer::backend
