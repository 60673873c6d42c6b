#include "commands/plan/roofline.h"

#include <algorithm>

namespace trainer::commands {
namespace {

constexpr double kProductShare = 0.6;    // of a large product's rate, that convolutions reach
constexpr double kBandwidthShare = 0.9;  // that kernels reach
constexpr double kScalarShare = 0.6;     // of the float32 rate, outside matrix products
constexpr double kLaunch = 2e-6;         // seconds from one kernel of a CUDA graph to the next

double product_rate(DType type, bool tf32, const backend::GpuModel& gpu) {
  const bool whole = type == DType::kFloat32;
  // Without tensor cores a large product comes close to the data sheet.
  if (whole && !tf32) return gpu.float_rate * kBandwidthShare;
  return (whole ? gpu.tf32_rate : gpu.half_rate) * gpu.large_product;
}

// Adds an instruction to a layer: the longer of its arithmetic and its traffic, and at least its
// launches.
void add_instruction(Roofline::Layer& layer, const backend::InstructionInfo& instruction, bool tf32,
                     const backend::GpuModel& gpu) {
  const backend::InstructionWork& work = instruction.work.value();
  const std::int64_t kernels = work.kernels + work.library_calls;
  const bool is_product = work.library_calls > 0;
  const double fastest =
      is_product ? product_rate(instruction.type, tf32, gpu) : gpu.float_rate * kScalarShare;
  const double memory = work.bytes / (gpu.bandwidth * kBandwidthShare);
  const double launches = static_cast<double>(kernels + work.copies) * kLaunch;
  const double fast = std::max({instruction.flops / fastest, memory, launches});
  const double slow = std::max(
      {instruction.flops / (fastest * (is_product ? kProductShare : 1)), memory, launches});
  (instruction.phase == graph::Phase::kBackward ? layer.backward : layer.forward) += {fast, slow};
  layer.flops += instruction.flops;
  layer.bytes += work.bytes;
  layer.kernels += kernels;
  if (memory >= fast) layer.memory_bound += fast;  // seconds, until the layer is whole
}

Roofline::Layer& find_layer(Roofline& all, const std::string& name) {
  for (Roofline::Layer& layer : all.layers) {
    if (layer.name == name) return layer;
  }
  all.layers.push_back({});
  all.layers.back().name = name;
  return all.layers.back();
}

// Sums the times, and makes shares of what is memory-bound.
void sum_layers(Roofline& all) {
  for (Roofline::Layer& layer : all.layers) {
    const double fast = layer.forward.fast + layer.backward.fast;
    if (fast > 0) layer.memory_bound /= fast;
    all.step += layer.forward;
    all.step += layer.backward;
  }
  all.step += all.update;
}

}  // namespace

Roofline roofline(const std::vector<backend::InstructionInfo>& instructions, std::int64_t samples,
                  bool tf32, const backend::GpuModel& gpu) {
  Roofline all;
  all.gpu = gpu.gpu.name;
  all.samples = samples;
  Roofline::Layer update;
  for (const backend::InstructionInfo& instruction : instructions) {
    const bool updates = instruction.phase == graph::Phase::kUpdate;
    add_instruction(updates ? update : find_layer(all, instruction.layer), instruction, tf32, gpu);
    all.work += instruction.work.value();
  }
  all.update = update.forward;
  sum_layers(all);
  return all;
}

}  // namespace trainer::commands
