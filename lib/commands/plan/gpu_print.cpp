#include <cmath>
#include <ostream>

#include "base/formats/table.h"
#include "commands/plan/device_plan.h"
#include "data/samples/loader.h"

namespace trainer::commands {
namespace {

std::string microseconds(const TimeRange& range) {
  return range.fast == 0 ? ""
                         : concat(fixed(range.fast * 1e6, 1), " to ", fixed(range.slow * 1e6, 1));
}

std::string whole(double value) { return grouped(std::llround(value)); }

void print_steps(const DevicePlan& device, std::ostream& out) {
  out << "\nsteps on a GPU with memory of their own\n";
  Table table({"layer", "what computes it", "KiB"}, {2});
  for (const backend::InstructionInfo& step : device.steps) {
    if (step.workspace == 0) continue;
    table.add({step.layer, step.implementation, whole(std::ceil(step.workspace / 1024.0))});
  }
  table.print(out, "  ");
}

void print_decoding(const DecodeRate& decoding, const Roofline& roofline, std::ostream& out) {
  if (!decoding.failure.empty()) {
    out << "  decoding was not measured: " << decoding.failure << '\n';
    return;
  }
  const auto samples = static_cast<double>(roofline.samples);
  const std::int64_t min_cores = count_cores(decoding, samples / roofline.step.slow);
  const std::int64_t max_cores = count_cores(decoding, samples / roofline.step.fast);
  out << "  one core of this machine reads and decodes " << fixed(decoding.images_per_second, 0)
      << " images/second (" << decoding.images << " measured); such a GPU needs "
      << (min_cores == max_cores ? concat(max_cores) : concat(min_cores, " to ", max_cores))
      << " of them; " << data::describe_cores(max_cores) << '\n';
}

void print_times(const DevicePlan& device, std::ostream& out) {
  const Roofline& roofline = *device.roofline;
  out << "\npredicted times of a step of " << roofline.samples << " samples on a " << roofline.gpu
      << ", microseconds\n";
  Table table({"layer", "forward", "backward", "memory-bound"}, {1, 2, 3});
  for (const Roofline::Layer& layer : roofline.layers) {
    table.add({layer.name, microseconds(layer.forward), microseconds(layer.backward),
               percent(layer.memory_bound)});
  }
  table.add({"update", "", microseconds(roofline.update), ""});
  table.add({"step", microseconds(roofline.step), "", ""});
  table.print(out, "  ");
  const auto samples = static_cast<double>(roofline.samples);
  out << "  images/second of a GPU: " << whole(samples / roofline.step.slow) << " to "
      << whole(samples / roofline.step.fast)
      << "; by arithmetic and memory traffic alone, without waiting for data or other GPUs\n";
  if (device.decoding) print_decoding(*device.decoding, roofline, out);
  out << "  kernels per step: " << roofline.kernels() << " (" << roofline.work.library_calls
      << " of them are calls of cuDNN or cuBLASLt, counted as one each); copies and fills: "
      << roofline.work.copies << "; memory traffic: " << fixed(roofline.work.bytes / 1e9, 1)
      << " GB\n";
}

}  // namespace

void print_gpu(const DevicePlan& device, std::ostream& out) {
  if (device.gpu == nullptr) return;
  if (!device.steps.empty()) print_steps(device, out);
  if (device.roofline) print_times(device, out);
}

}  // namespace trainer::commands
