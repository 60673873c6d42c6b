#include "commands/devices/print_devices.h"

#include "base/error.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

std::string describe_cpu() {
  backend::DeviceOptions options;
  options.kind = DeviceKind::kCpu;
  return backend::open_backends(options).front()->describe();
}

}  // namespace

void fields(results::FieldVisitor& v, DeviceList::Gpu& gpu) {
  v("index", gpu.index, "The number of the GPU.");
  v("name", gpu.name, "Its name.");
  v("compute_capability", gpu.compute_capability, "Its compute capability.");
  v("multiprocessors", gpu.multiprocessors, "Its multiprocessors.");
  v("memory_bytes", gpu.memory_bytes, results::kBytes, "Its memory.");
  v("faults", gpu.faults, "The faults that NVML has counted; empty if there are none.");
}

void fields(results::FieldVisitor& v, DeviceList& list) {
  v.event("devices");
  v("cpu", list.cpu, "The CPU.");
  v("gpus", list.gpus, "The GPUs.");
  v("left_out", list.left_out, "Why GPUs of this machine are not used.");
  v("no_gpu", list.no_gpu, "Why there is no GPU; null if there is one.");
}

void print_devices_json(const backend::Platform& platform, std::ostream& out) {
  const backend::GpuList found = backend::list_gpus(platform);
  DeviceList list{describe_cpu(), {}, found.left_out, {}};
  for (const backend::Gpu& gpu : found.gpus) {
    list.gpus.push_back({gpu.number, gpu.name, concat(gpu.major, ".", gpu.minor),
                         gpu.multiprocessors, gpu.memory_bytes, gpu.faults});
  }
  if (list.gpus.empty()) list.no_gpu = found.reason;
  results::print_json(list, out);
}

void print_devices(const backend::Platform& platform, std::ostream& out) {
  const backend::GpuList list = backend::list_gpus(platform);
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  out << describe_cpu() << '\n';
  for (const backend::Gpu& gpu : list.gpus) {
    out << "GPU " << gpu.number << ": " << gpu.name << ", compute capability " << gpu.major << '.'
        << gpu.minor << ", " << gpu.multiprocessors << " multiprocessors, "
        << (gpu.memory_bytes + kGibibyte / 2) / kGibibyte << " GiB"
        << (gpu.faults.empty() ? "" : "; ") << gpu.faults << '\n';
  }
  for (const std::string& gpu : list.left_out) out << gpu << '\n';
  if (list.gpus.empty()) out << "no GPU: " << list.reason << '\n';
}

}  // namespace trainer::commands
