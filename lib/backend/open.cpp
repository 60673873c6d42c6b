#include "backend/open.h"

#include <numeric>
#include <optional>

#include "backend/cpu/cpu.h"
#include "backend/cuda_plugin.h"
#include "backend/estimate.h"
#include "backend/gpu_model.h"
#include "base/error.h"

namespace trainer::backend {
namespace {

constexpr char kNoGpusThere[] = "the machine to plan for has no GPU";

std::string& plugin_path() {
  static std::string path;
  return path;
}

std::string& plan_cache_folder() {
  static std::string folder;
  return folder;
}

std::string& tuning_cache_folder() {
  static std::string folder;
  return folder;
}

std::string& planned_gpu() {
  static std::string model;
  return model;
}

std::optional<Topology>& planned_machine() {
  static std::optional<Topology> machine;
  return machine;
}

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
  options.plan_cache = plan_cache_folder();
  options.tuning_cache = tuning_cache_folder();
  return plugin.open(options);
}

// Opens a GPU of the planned model for each replica.
std::vector<std::unique_ptr<Backend>> open_planned(DeviceOptions options) {
  options.planned = planned_gpu();
  options.plan_cache = plan_cache_folder();
  options.gpus.assign(options.replicas, 0);
  std::string reason;
  try {
    return CudaPlugin(plugin_path(), CudaPlugin::Driver::kNotNeeded).open(options);
  } catch (const NoGpu& error) {
    reason = error.what();
  }
  std::vector<std::unique_ptr<Backend>> backends;
  for (std::int64_t replica = 0; replica < options.replicas; ++replica) {
    backends.push_back(make_estimate(*find_gpu_model(options.planned), reason));
  }
  return backends;
}

std::vector<std::unique_ptr<Backend>> open_cpu(DeviceOptions options) {
  options.machine = planned_machine();
  return cpu::open_replicas(options);
}

}  // namespace

std::vector<std::unique_ptr<Backend>> open_backends(const DeviceOptions& options) {
  if (!planned_gpu().empty()) return open_planned(options);
  if (options.kind == DeviceKind::kCpu) return open_cpu(options);
  if (planned_machine()) {
    if (options.kind == DeviceKind::kAuto) return open_cpu(options);
    throw DeviceError(concat("parallel.device: cuda: ", kNoGpusThere,
                             "; use device: cpu or auto, or plan for a GPU with --device"));
  }
  std::optional<CudaPlugin> plugin;
  std::size_t available = 0;
  try {
    plugin.emplace(plugin_path());
    available = plugin->gpus().size();
  } catch (const NoGpu& reason) {
    if (options.kind == DeviceKind::kAuto) return open_cpu(options);
    throw DeviceError(
        concat("parallel.device: cuda: ", reason.what(), "; or use device: cpu or auto"));
  }
  return open_gpus(*plugin, options, available);
}

GpuList list_gpus() {
  GpuList list;
  if (planned_machine()) {
    list.reason = kNoGpusThere;
    return list;
  }
  try {
    list.gpus = CudaPlugin(plugin_path()).gpus();
  } catch (const NoGpu& reason) {
    list.reason = reason.what();
    list.broken = reason.cause() == NoGpu::Cause::kBroken;
  } catch (const DeviceError& error) {
    list.reason = error.what();
    list.broken = true;
  }
  return list;
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
  if (options.kind == DeviceKind::kCuda || !planned_gpu().empty()) return "";
  if (options.kind == DeviceKind::kAuto) {
    const GpuList list = list_gpus();
    if (!list.gpus.empty()) return "";
    const std::string gpus = print_configured_gpus(options);
    if (!gpus.empty()) {
      return concat("parallel.gpus: ", gpus, ", but device: auto uses the CPU: ", list.reason);
    }
    if (list.broken) return "parallel.device: auto uses the CPU: " + list.reason;
  }
  DeviceOptions there = options;
  there.machine = planned_machine();
  return cpu::core_warning(there);
}

std::optional<DeviceOptions> reorder_sums(const DeviceOptions& options, std::int64_t variant) {
  const bool cpu = options.kind == DeviceKind::kCpu ||
                   (options.kind == DeviceKind::kAuto && list_gpus().gpus.empty());
  if (!cpu) return {};
  return cpu::reorder_sums(options, variant);
}

void plan_for_gpu(const std::string& model) {
  if (!model.empty() && find_gpu_model(model) == nullptr) {
    throw ConfigError(
        {}, concat("--device ", model, ": expected a GPU to plan for, ", gpu_model_names()));
  }
  planned_gpu() = model;
}

void plan_for_machine(const std::optional<Topology>& machine) { planned_machine() = machine; }
Topology machine_topology() { return planned_machine() ? *planned_machine() : read_topology(); }

void use_cuda_plugin(const std::string& path) { plugin_path() = path; }
void use_cuda_plan_cache(const std::string& folder) { plan_cache_folder() = folder; }
void use_cuda_tuning_cache(const std::string& folder) { tuning_cache_folder() = folder; }

}  // namespace trainer::backend
