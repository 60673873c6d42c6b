// How replicas share the cores of a processor.
#include <algorithm>
#include <bit>

#include "backend/cpu/cpu.h"
#include "base/error.h"
#include "base/threads/cores.h"

namespace trainer::backend::cpu {
namespace {

std::int64_t core_count() { return static_cast<std::int64_t>(available_cores().size()); }

std::int64_t threads_of_replica(const DeviceOptions& options) {
  return std::max<std::int64_t>(1, options.threads.value_or(core_count()) / options.replicas);
}

// Ordered sums need workers in a power of two that divides the replica's micro-batches; 0: chosen.
std::int64_t workers_of_replica(const DeviceOptions& options, std::int64_t threads) {
  if (options.lanes) return *options.lanes;
  if (!options.ordered) return 0;
  const auto most =
      std::min(threads, options.micro_batches / (options.replicas * options.processes));
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most)));
}

// The cores of a replica's workers; none when they shall not be pinned, or when replicas share
// cores.
std::vector<int> cores_of(const DeviceOptions& options, std::int64_t replica,
                          std::int64_t threads) {
  const std::vector<int> cores = available_cores();
  if (!options.pin || options.replicas == 1 || options.replicas * threads > core_count()) return {};
  const auto first = cores.begin() + replica * threads;
  return {first, first + threads};
}

}  // namespace

std::vector<std::unique_ptr<Backend>> open_replicas(const DeviceOptions& options) {
  const std::int64_t threads = threads_of_replica(options);
  std::vector<std::unique_ptr<Backend>> backends;
  for (std::int64_t replica = 0; replica < options.replicas; ++replica) {
    CpuOptions own;
    own.lanes = static_cast<int>(workers_of_replica(options, threads));
    own.threads = options.ordered ? own.lanes : static_cast<int>(threads);
    own.all_threads = static_cast<int>(options.threads.value_or(core_count()));
    own.cores = cores_of(options, replica, threads);
    backends.push_back(open_backend(own));
  }
  return backends;
}

std::string core_warning(const DeviceOptions& options) {
  const std::int64_t cores = core_count();
  std::string asked;
  if (options.threads.value_or(0) > cores) asked = concat("parallel.threads: ", *options.threads);
  if (options.lanes.value_or(0) * options.replicas > cores) {
    asked += concat(asked.empty() ? "" : ", ", "parallel.lanes: ", *options.lanes);
    if (options.replicas > 1) asked += concat(" in each of ", options.replicas, " replicas");
  }
  if (asked.empty()) return "";
  return concat(asked, ", but this process may use ", cores, cores == 1 ? " core" : " cores",
                ": more threads than cores slow each other down; leave it out to use all");
}

}  // namespace trainer::backend::cpu
