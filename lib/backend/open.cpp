#include "backend/open.h"

#include <algorithm>

#include "backend/cpu/cpu.h"
#include "backend/cuda_plugin.h"
#include "backend/gpu_model.h"
#include "base/error.h"
#include "base/text.h"

namespace trainer::backend {
namespace {

constexpr char kNoGpusThere[] = "the machine to plan for has no GPU";

// Returns "1 GPU that can be used (GPU 0 ...)", and without GPUs that are left out "2 GPUs".
std::string describe_count(const GpuList& list) {
  const std::size_t count = list.gpus.size();
  return concat(
      count, count == 1 ? " GPU" : " GPUs",
      list.left_out.empty() ? "" : concat(" that can be used (", join(list.left_out, "; "), ")"));
}

// Chooses the number of a GPU for each replica.
std::vector<int> choose_gpus(const DeviceOptions& options, const GpuList& list) {
  const auto available = std::ssize(list.gpus);
  std::vector<int> chosen = options.gpus;
  if (chosen.empty()) {
    if (options.replicas > available) {
      throw DeviceError(concat(
          "parallel.gpus: ", options.replicas, " replicas need a GPU each, and this machine has ",
          describe_count(list), "; train fewer, or list GPUs more than once, such as [0, 0]"));
    }
    const bool for_all = options.local_size * options.replicas <= available;
    const std::int64_t first = for_all ? options.local_rank * options.replicas : 0;
    for (std::int64_t i = 0; i < options.replicas; ++i) {
      chosen.push_back(list.gpus[first + i].number);
    }
  }
  for (const int gpu : chosen) {
    if (std::ranges::find(list.gpus, gpu, &Gpu::number) == list.gpus.end()) {
      throw DeviceError(concat("parallel.gpus: there is no GPU ", gpu, " to use; this machine has ",
                               describe_count(list), ", counted from 0"));
    }
  }
  if (std::ssize(chosen) != options.replicas) {
    throw DeviceError(concat("parallel.gpus: ", chosen.size(), " GPUs are listed for ",
                             options.replicas, " replicas; list one for each"));
  }
  return chosen;
}

// Opens a GPU of the planned model for each replica.
std::vector<std::unique_ptr<Backend>> open_planned(DeviceOptions options) {
  check_planned_gpu(options.platform);
  options.gpus.assign(options.replicas, 0);
  return CudaPlugin(options.platform, CudaPlugin::Driver::kNotNeeded).open(options);
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
  GpuList list;
  try {
    plugin.emplace(options.platform);
    list = plugin->list();
  } catch (const NoGpu& reason) {
    if (options.kind == DeviceKind::kAuto) return cpu::open_replicas(options);
    throw DeviceError(
        concat("parallel.device: cuda: ", reason.what(), "; or use device: cpu or auto"));
  }
  DeviceOptions chosen = options;
  chosen.gpus = choose_gpus(options, list);
  return plugin->open(chosen);
}

GpuList list_gpus(const Platform& platform) {
  GpuList list;
  if (platform.planned_machine) {
    list.reason = kNoGpusThere;
    return list;
  }
  try {
    list = CudaPlugin(platform).list();
  } catch (const NoGpu& reason) {
    list.reason = reason.what();
    list.broken = reason.cause() == NoGpu::Cause::kBroken;
  } catch (const DeviceError& error) {
    list.reason = error.what();
    list.broken = true;
  }
  return list;
}

GpuLibraries find_gpu_libraries(const Platform& platform, bool with_nccl) {
  return CudaPlugin(platform).find_libraries(with_nccl);
}

namespace {

// Returns the config's number or list of GPUs; "" if the config names none.
std::string print_configured_gpus(const DeviceOptions& options) {
  if (options.gpu_count) return concat(*options.gpu_count);
  std::string list;
  for (const int gpu : options.gpus) list += concat(list.empty() ? "[" : ", ", gpu);
  return list.empty() ? "" : list + "]";
}

bool takes_cpu(const DeviceOptions& options) {
  if (!options.platform.planned_gpu.empty()) return false;
  return options.kind == DeviceKind::kCpu ||
         (options.kind == DeviceKind::kAuto && list_gpus(options.platform).gpus.empty());
}

}  // namespace

std::string device_warning(const DeviceOptions& options) {
  if (!options.platform.planned_gpu.empty()) return "";
  if (options.kind != DeviceKind::kCpu) {
    const GpuList list = list_gpus(options.platform);
    if (!list.gpus.empty()) return options.gpus.empty() ? join(list.left_out, "; ") : "";
    if (options.kind == DeviceKind::kCuda) return "";  // open_backends() throws the reason
    const std::string gpus = print_configured_gpus(options);
    if (!gpus.empty()) {
      return concat("parallel.gpus: ", gpus, ", but device: auto uses the CPU: ", list.reason);
    }
    if (list.broken) return "parallel.device: auto uses the CPU: " + list.reason;
  }
  return cpu::core_warning(options);
}

std::optional<DeviceOptions> reorder_sums(const DeviceOptions& options, std::int64_t variant) {
  if (!takes_cpu(options)) return {};
  return cpu::reorder_sums(options, variant);
}

bool prefers_bfloat16(const DeviceOptions& options) {
  // All GPUs that the CUDA backend takes have tensor cores for bfloat16.
  return !takes_cpu(options) || cpu::open_replicas(options).front()->prefers_bfloat16();
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
