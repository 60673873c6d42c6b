#include "commands/devices/print_devices.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "backend/open.h"
#include "base/error.h"
#include "base/formats/json.h"

namespace trainer::commands {
namespace {

using Json = nlohmann::ordered_json;

std::string describe_cpu() {
  backend::DeviceOptions options;
  options.kind = DeviceKind::kCpu;
  return backend::open_backends(options).front()->describe();
}

}  // namespace

void print_devices_json(const backend::Platform& platform, std::ostream& out) {
  const backend::GpuList list = backend::list_gpus(platform);
  Json gpus = Json::array();
  for (const backend::Gpu& gpu : list.gpus) {
    gpus.push_back({{"index", gpus.size()},
                    {"name", gpu.name},
                    {"compute_capability", concat(gpu.major, ".", gpu.minor)},
                    {"multiprocessors", gpu.multiprocessors},
                    {"memory_bytes", gpu.memory_bytes}});
  }
  Json event{{"event", "devices"}, {"cpu", describe_cpu()}, {"gpus", gpus}, {"no_gpu", nullptr}};
  if (gpus.empty()) event["no_gpu"] = list.reason;
  write_event(out, event);
}

void print_devices(const backend::Platform& platform, std::ostream& out) {
  const backend::GpuList list = backend::list_gpus(platform);
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  out << describe_cpu() << '\n';
  for (std::size_t i = 0; i < list.gpus.size(); ++i) {
    const backend::Gpu& gpu = list.gpus[i];
    out << "GPU " << i << ": " << gpu.name << ", compute capability " << gpu.major << '.'
        << gpu.minor << ", " << gpu.multiprocessors << " multiprocessors, "
        << (gpu.memory_bytes + kGibibyte / 2) / kGibibyte << " GiB\n";
  }
  if (list.gpus.empty()) out << "no GPU: " << list.reason << '\n';
}

}  // namespace trainer::commands
