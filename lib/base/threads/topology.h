// The shape of a machine: the processors that share caches and memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/threads/cores.h"

namespace trainer {

struct Processor {
  int number = 0;  // the system's number: available_cores()
  int domain = 0;  // its L3 cache, counted from 0 in the order of Topology::processors
  int node = 0;    // its NUMA node, as the system counts them
};

struct Topology {
  // One or more, sorted by node, then domain, then number, so that neighbours share most.
  std::vector<Processor> processors;
  std::int64_t l2_bytes = 0, l3_bytes = 0;  // size of one cache of the first processor; 0: unknown
  bool simulated = false;                   // another machine, to which threads cannot be bound
  std::int64_t core_quota = 0;              // see core_quota(); 0: no limit
};

// Returns the number of threads that can run at once all the time.
std::int64_t usable_core_count(const Topology& topology);

// Reads the topology of these processors, at least one, from /sys. Processors that it does not
// describe share one domain and one node. `root` is the folder that contains /sys. Does not throw.
Topology read_topology(const std::filesystem::path& root = "/",
                       const std::vector<int>& processors = available_cores());

// A machine whose nodes are alike.
struct MachineShape {
  std::int64_t nodes = 1, domains_per_node = 1, cores_per_domain = 1;
  std::int64_t l2_kib = 0, l3_kib = 0;  // size of one cache; 0: unknown
};
Topology simulate_topology(const MachineShape& shape);

std::vector<int> processor_numbers(std::span<const Processor> processors);
int count_domains(std::span<const Processor> processors);
int count_nodes(std::span<const Processor> processors);

// "64 cores, 8 L3 domains, 2 NUMA nodes, L2 1024 KiB, L3 32768 KiB": sizes of one cache, left out
// where they are unknown. With a quota: "8 of 64 cores (control group)".
std::string describe(const Topology& topology);

}  // namespace trainer
