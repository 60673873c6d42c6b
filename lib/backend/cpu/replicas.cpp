// How replicas share the cores of a processor.
#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include "backend/cpu/cpu.h"
#include "base/error.h"
#include "base/threads/topology.h"

namespace trainer::backend::cpu {
namespace {

std::int64_t core_count(const DeviceOptions& options) {
  return options.machine ? usable_core_count(*options.machine) : usable_core_count();
}

// The settings of the CPU; chosen when left out.
struct CpuSettings {
  std::optional<std::int64_t> threads, lanes;
  bool pin = false;
};

std::int64_t number_of(const Setting& setting) {
  std::int64_t number = 0;
  const char* end = setting.value.data() + setting.value.size();
  const auto [stop, error] = std::from_chars(setting.value.data(), end, number);
  if (error != std::errc() || stop != end || number < 1) {
    throw DeviceError(
        concat(setting.key, ": expected a number of at least 1, found '", setting.value, "'"));
  }
  return number;
}

CpuSettings settings_of(const DeviceOptions& options) {
  CpuSettings settings;
  for (const Setting& setting : options.settings) {
    if (setting.key == kThreadsKey) settings.threads = number_of(setting);
    if (setting.key == kLanesKey) settings.lanes = number_of(setting);
    if (setting.key == kPinKey) settings.pin = setting.value == "true";
  }
  return settings;
}

std::int64_t threads_of_replica(const DeviceOptions& options, const CpuSettings& settings) {
  return std::max<std::int64_t>(1,
                                settings.threads.value_or(core_count(options)) / options.replicas);
}

// Ordered sums need workers in a power of two that divides the replica's micro-batches; 0: chosen.
std::int64_t workers_of_replica(const DeviceOptions& options, const CpuSettings& settings,
                                std::int64_t threads) {
  if (settings.lanes) return *settings.lanes;
  if (!options.ordered) return 0;
  const auto most =
      std::min(threads, options.micro_batches / (options.replicas * options.processes));
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most)));
}

// The processors of a replica's threads; none when replicas share them.
std::vector<Processor> processors_of(const Topology& topology, std::int64_t replicas,
                                     std::int64_t replica, std::int64_t threads) {
  const auto all = static_cast<std::int64_t>(topology.processors.size());
  if (replicas * threads > all) return {};
  const auto first = topology.processors.begin() + replica * threads;
  return {first, first + threads};
}

// Without being asked only where memory has places, by a process that uses the whole machine: of
// several such processes each is spread alike. One replica on one L3 cache gains nothing.
CpuOptions::Binding binding_of(const Topology& topology, const CpuSettings& settings,
                               std::int64_t replicas, std::int64_t threads) {
  using Binding = CpuOptions::Binding;
  const auto all = static_cast<std::int64_t>(topology.processors.size());
  if (topology.simulated || replicas * threads > all) return Binding::kNone;
  if (settings.pin && (replicas > 1 || count_domains(topology.processors) > 1)) {
    return Binding::kProcessors;
  }
  const bool whole = replicas * threads == all;
  return whole && count_nodes(topology.processors) > 1 ? Binding::kNodes : Binding::kNone;
}

}  // namespace

std::vector<std::unique_ptr<Backend>> open_replicas(const DeviceOptions& options) {
  const CpuSettings settings = settings_of(options);
  const std::int64_t threads = threads_of_replica(options, settings);
  const Topology topology = options.machine ? *options.machine : read_topology();
  const CpuOptions::Binding binding = binding_of(topology, settings, options.replicas, threads);
  std::vector<std::unique_ptr<Backend>> backends;
  for (std::int64_t replica = 0; replica < options.replicas; ++replica) {
    CpuOptions own;
    own.lanes = static_cast<int>(workers_of_replica(options, settings, threads));
    own.threads = options.ordered ? own.lanes : static_cast<int>(threads);
    own.all_threads = static_cast<int>(settings.threads.value_or(core_count(options)));
    own.processors = processors_of(topology, options.replicas, replica, threads);
    own.binding = binding;
    backends.push_back(open_backend(own));
  }
  return backends;
}

DeviceOptions with_other_sums(DeviceOptions options) {
  constexpr std::int64_t kMaxLanesTried = 63;  // not the default of any machine
  const std::int64_t lanes =
      std::min(settings_of(options).threads.value_or(core_count(options)) + 1, kMaxLanesTried);
  std::erase_if(options.settings, [](const Setting& setting) { return setting.key == kLanesKey; });
  options.settings.push_back({kLanesKey, std::to_string(lanes)});
  return options;
}

std::string core_warning(const DeviceOptions& options) {
  const CpuSettings settings = settings_of(options);
  const std::int64_t cores = core_count(options);
  std::string asked;
  if (settings.threads.value_or(0) > cores) asked = concat(kThreadsKey, ": ", *settings.threads);
  if (settings.lanes.value_or(0) * options.replicas > cores) {
    asked += concat(asked.empty() ? "" : ", ", kLanesKey, ": ", *settings.lanes);
    if (options.replicas > 1) asked += concat(" in each of ", options.replicas, " replicas");
  }
  if (asked.empty()) return "";
  return concat(asked, options.machine ? ", but that machine has " : ", but this process may use ",
                cores, cores == 1 ? " core" : " cores",
                ": more threads than cores slow each other down; leave it out to use all");
}

}  // namespace trainer::backend::cpu
