#include "backend/open.h"

#include <numeric>
#include <optional>

#include "backend/cpu/cpu.h"
#include "backend/cuda_plugin.h"
#include "backend/gpu_model.h"
#include "base/error.h"

namespace trainer::backend {
namespace {

constexpr char kNoGpusThere[] = "the machine to plan for has no GPU";

std::string describe_count(std::size_t gpus) { return concat(gpus, gpus == 1 ? " GPU" : " GPUs"); }

// Chooses a GPU for each replica among `available` GPUs.
std::vector<int> choose_gpus(const DeviceOptions& options, std::size_t available) {
  std::vector<int> chosen = options.gpus;
  if (chosen.empty()) {
    if (options.replicas > static_cast<std::int64_t>(available)) {
      throw DeviceError(concat(
          "parallel.gpus: ", options.replicas, " replicas need a GPU each, and this machine has ",
          describe_count(available), "; train fewer, or list GPUs more than once, such as [0, 0]"));
    }
    chosen.resize(options.replicas);
    const auto each = static_cast<int>(options.replicas);
    const bool for_all = options.local_size * chosen.size() <= available;
    std::iota(chosen.begin(), chosen.end(), for_all ? options.local_rank * each : 0);
  }
  for (const int gpu : chosen) {
    if (gpu < 0 || static_cast<std::size_t>(gpu) >= available) {
      throw DeviceError(concat("parallel.gpus: there is no GPU ", gpu, "; this machine has ",
                               describe_count(available), ", counted from 0"));
    }
  }
  if (std::ssize(chosen) != options.replicas) {
    throw DeviceError(concat("parallel.gpus: ", chosen.size(), " GPUs are listed for ",
                             options.replicas, " replicas; list one for each"));
  }
  return chosen;
}

std::vector<std::unique_ptr<Backend>> open_gpus(const CudaPlugin& plugin, DeviceOptions options,
                                                std::size_t available) {
  options.gpus = choose_gpus(options, available);
  return plugin.open(options);
}

// Opens a GPU of the planned model for each replica.
std::vector<std::unique_ptr<Backend>> open_planned(DeviceOptions options) {
  check_planned_gpu(options.platform);
  options.gpus.assign(options.replicas, 0);
  return CudaPlugin(options.platform.cuda_plugin, CudaPlugin::Driver::kNotNeeded).open(options);
}

}  // namespace

std::vector<std::unique_ptr<Backend>> open_backends(const DeviceOptions& options) {
  if (!options.platform.planned_gpu.empty()) return open_planned(options);
  if (options.kind == DeviceKind::kCpu) return cpu::open_replicas(options);
  if (options.platform.planned_machine) {
    if (options.kind == DeviceKind::kAuto) return cpu::open_replicas(options);
    throw DeviceError(concat("parallel.device: cuda: ", kNoGpusThere,
                             "; use device: cpu or auto, or plan for a GPU with --device"));
  }
  std::optional<CudaPlugin> plugin;
  std::size_t available = 0;
  try {
    plugin.emplace(options.platform.cuda_plugin);
    available = plugin->gpus().size();
  } catch (const NoGpu& reason) {
    if (options.kind == DeviceKind::kAuto) return cpu::open_replicas(options);
    throw DeviceError(
        concat("parallel.device: cuda: ", reason.what(), "; or use device: cpu or auto"));
  }
  return open_gpus(*plugin, options, available);
}

GpuList list_gpus(const Platform& platform) {
  GpuList list;
  if (platform.planned_machine) {
    list.reason = kNoGpusThere;
    return list;
  }
  try {
    list.gpus = CudaPlugin(platform.cuda_plugin).gpus();
  } catch (const NoGpu& reason) {
    list.reason = reason.what();
    list.broken = reason.cause() == NoGpu::Cause::kBroken;
  } catch (const DeviceError& error) {
    list.reason = error.what();
    list.broken = true;
  }
  return list;
}

std::string describe_libraries(const Platform& platform, bool with_nccl) {
  return CudaPlugin(platform.cuda_plugin).describe_libraries(with_nccl);
}

namespace {

// Returns the config's number or list of GPUs; "" if the config names none.
std::string print_configured_gpus(const DeviceOptions& options) {
  if (options.gpu_count) return concat(*options.gpu_count);
  std::string list;
  for (const int gpu : options.gpus) list += concat(list.empty() ? "[" : ", ", gpu);
  return list.empty() ? "" : list + "]";
}

}  // namespace

std::string device_warning(const DeviceOptions& options) {
  if (options.kind == DeviceKind::kCuda || !options.platform.planned_gpu.empty()) return "";
  if (options.kind == DeviceKind::kAuto) {
    const GpuList list = list_gpus(options.platform);
    if (!list.gpus.empty()) return "";
    const std::string gpus = print_configured_gpus(options);
    if (!gpus.empty()) {
      return concat("parallel.gpus: ", gpus, ", but device: auto uses the CPU: ", list.reason);
    }
    if (list.broken) return "parallel.device: auto uses the CPU: " + list.reason;
  }
  return cpu::core_warning(options);
}

std::optional<DeviceOptions> reorder_sums(const DeviceOptions& options, std::int64_t variant) {
  const bool cpu = options.kind == DeviceKind::kCpu ||
                   (options.kind == DeviceKind::kAuto && list_gpus(options.platform).gpus.empty());
  if (!cpu) return {};
  return cpu::reorder_sums(options, variant);
}

Platform read_platform(const Environment& environment) {
  Platform platform;
  platform.cuda_plugin = read_variable(environment, "TRAINER_CUDA_PLUGIN");
  platform.plan_cache = read_variable(environment, "TRAINER_CUDA_PLAN_CACHE");
  const std::string caches = read_variable(environment, "XDG_CACHE_HOME");
  const std::string home = read_variable(environment, "HOME");
  platform.tuning_cache = platform.plan_cache;
  if (platform.tuning_cache.empty() && !caches.empty()) platform.tuning_cache = caches + "/trainer";
  if (platform.tuning_cache.empty() && !home.empty()) {
    platform.tuning_cache = home + "/.cache/trainer";
  }
  return platform;
}

void check_planned_gpu(const Platform& platform) {
  const std::string& name = platform.planned_gpu;
  if (name.empty() || find_gpu_model(name) != nullptr) return;
  throw ConfigError({},
                    concat("--device ", name, ": expected a GPU to plan for, ", gpu_model_names()));
}

Topology machine_topology(const Platform& platform) {
  return platform.planned_machine ? *platform.planned_machine : read_topology();
}

}  // namespace trainer::backend
