// How replicas share the cores of a processor.
#include <algorithm>

#include "backend/cpu/cpu.h"
#include "backend/cpu/lanes/lanes.h"
#include "base/error.h"
#include "base/threads/topology.h"

namespace trainer::backend::cpu {
namespace {

std::int64_t core_count(const DeviceOptions& options) {
  return options.platform.planned_machine ? usable_core_count(*options.platform.planned_machine)
                                          : usable_core_count();
}

std::int64_t count_threads(const DeviceOptions& options) {
  return std::max<std::int64_t>(
      1, options.cpu.threads.value_or(core_count(options)) / options.replicas);
}

// Returns the number of lanes of a replica, or 0 if the backend chooses it. Ordered sums need a
// micro-batch per lane. They get the fewest lanes that compute the micro-batches of the replica
// in as many rounds as one lane per thread would.
std::int64_t count_lanes(const DeviceOptions& options, std::int64_t threads) {
  if (options.cpu.lanes) return *options.cpu.lanes;
  if (!options.ordered) return 0;
  threads = std::min<std::int64_t>(threads, kMaxLanes);
  // Fewer micro-batches than replicas are an error of the program that is compiled.
  const std::int64_t micro_batches =
      std::max<std::int64_t>(1, options.micro_batches / (options.replicas * options.processes));
  const std::int64_t rounds = (micro_batches + threads - 1) / threads;
  return (micro_batches + rounds - 1) / rounds;
}

// Returns the processors of a replica's threads; empty if replicas share processors.
std::vector<Processor> select_processors(const Topology& topology, std::int64_t replicas,
                                         std::int64_t replica, std::int64_t threads) {
  const auto all = std::ssize(topology.processors);
  if (replicas * threads > all) return {};
  const auto first = topology.processors.begin() + replica * threads;
  return {first, first + threads};
}

// Chooses where threads stay. Without parallel.pin they are bound to nodes only if the machine has
// several and this process uses the whole machine. One replica on one L3 cache gains nothing.
CpuOptions::Binding choose_binding(const Topology& topology, bool pin, std::int64_t replicas,
                                   std::int64_t threads) {
  using Binding = CpuOptions::Binding;
  const auto all = std::ssize(topology.processors);
  if (topology.simulated || replicas * threads > all) return Binding::kNone;
  if (pin && (replicas > 1 || count_domains(topology.processors) > 1)) {
    return Binding::kProcessors;
  }
  const bool whole = replicas * threads == all;
  return whole && count_nodes(topology.processors) > 1 ? Binding::kNodes : Binding::kNone;
}

}  // namespace

std::vector<std::unique_ptr<Backend>> open_replicas(const DeviceOptions& options) {
  const std::int64_t threads = count_threads(options);
  const Topology topology = machine_topology(options.platform);
  const CpuOptions::Binding binding =
      choose_binding(topology, options.cpu.pin, options.replicas, threads);
  std::vector<std::unique_ptr<Backend>> backends;
  for (std::int64_t replica = 0; replica < options.replicas; ++replica) {
    CpuOptions cpu;
    cpu.lanes = static_cast<int>(count_lanes(options, threads));
    cpu.threads = options.ordered ? cpu.lanes : static_cast<int>(threads);
    cpu.all_threads = static_cast<int>(options.cpu.threads.value_or(core_count(options)));
    cpu.processors = select_processors(topology, options.replicas, replica, threads);
    cpu.binding = binding;
    cpu.progress = options.platform.progress;
    backends.push_back(open_backend(cpu));
  }
  return backends;
}

DeviceOptions reorder_sums(DeviceOptions options, std::int64_t variant) {
  constexpr std::int64_t kMaxLanesTried = 63;  // not the default of any machine
  const std::int64_t lanes = options.cpu.threads.value_or(core_count(options)) + 1 + variant;
  options.cpu.lanes = lanes <= kMaxLanesTried ? lanes : kMaxLanesTried - variant;
  return options;
}

std::string core_warning(const DeviceOptions& options) {
  const std::int64_t cores = core_count(options);
  std::string asked;
  if (options.cpu.threads.value_or(0) > cores)
    asked = concat("parallel.threads: ", *options.cpu.threads);
  if (options.cpu.lanes.value_or(0) * options.replicas > cores) {
    asked += concat(asked.empty() ? "" : ", ", "parallel.lanes: ", *options.cpu.lanes);
    if (options.replicas > 1) asked += concat(" in each of ", options.replicas, " replicas");
  }
  if (asked.empty()) return "";
  return concat(
      asked,
      options.platform.planned_machine ? ", but that machine has " : ", but this process may use ",
      cores, cores == 1 ? " core" : " cores",
      ": more threads than cores slow each other down; leave it out to use all");
}

}  // namespace trainer::backend::cpu
