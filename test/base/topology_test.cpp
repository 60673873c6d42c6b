#include "base/threads/topology.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "base/error.h"
#include "base/files/files.h"

namespace trainer {
namespace {

// A /sys of our own.
struct System {
  void write(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories((folder.path() / path).parent_path());
    std::ofstream(folder.path() / path) << content << '\n';
  }
  void node(int number, const std::string& processors) const {
    write(concat("sys/devices/system/node/node", number, "/cpulist"), processors);
  }
  // Caches as the kernel lists them: L1 data, L1 instruction, L2, L3.
  void processor(int number, const std::string& sharing_l3) const {
    const std::string alone = std::to_string(number);
    cache(number, 0, "1", "Data", "48K", alone);
    cache(number, 1, "1", "Instruction", "32K", alone);
    cache(number, 2, "2", "Unified", "1024K", alone);
    if (!sharing_l3.empty()) cache(number, 3, "3", "Unified", "32768K", sharing_l3);
  }
  void cache(int number, int index, const std::string& level, const std::string& type,
             const std::string& size, const std::string& shared_by) const {
    const std::string at = concat("sys/devices/system/cpu/cpu", number, "/cache/index", index, '/');
    write(at + "level", level);
    write(at + "type", type);
    write(at + "size", size);
    write(at + "shared_cpu_list", shared_by);
  }
  Topology read(int count) const {
    std::vector<int> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    return read_topology(folder.path(), numbers);
  }
  TemporaryFolder folder;
};

// "number/domain/node" of each.
std::string listed(const Topology& topology) {
  std::string text;
  for (const Processor& processor : topology.processors) {
    text += concat(text.empty() ? "" : " ", processor.number, '/', processor.domain, '/',
                   processor.node);
  }
  return text;
}

}  // namespace

TEST_CASE("topology orders processors by node, then L3 cache, whatever their numbers") {
  const System system;
  // Two sockets whose processors take turns, each with two L3 caches.
  system.node(0, "0,2,4,6");
  system.node(1, "1,3,5,7");
  for (const int number : {0, 2}) system.processor(number, "0,2");
  for (const int number : {4, 6}) system.processor(number, "4,6");
  for (const int number : {1, 7}) system.processor(number, "1,7");
  for (const int number : {3, 5}) system.processor(number, "3,5");
  const Topology topology = system.read(8);
  CHECK(listed(topology) == "0/0/0 2/0/0 4/1/0 6/1/0 1/2/1 7/2/1 3/3/1 5/3/1");
  CHECK(topology.l2_bytes == 1 << 20);
  CHECK(topology.l3_bytes == 32 << 20);
  CHECK_FALSE(topology.simulated);
  CHECK(count_domains(topology.processors) == 4);
  CHECK(count_nodes(topology.processors) == 2);
  CHECK(describe(topology) == "8 cores, 4 L3 domains, 2 NUMA nodes, L2 1024 KiB, L3 32768 KiB");
}

TEST_CASE("topology has only the processors that the process may use") {
  const System system;
  system.node(0, "0-3");
  system.node(1, "4-7");
  for (int number = 0; number < 8; ++number) {
    system.processor(number, number < 4 ? "0-3" : "4-7");
  }
  const Topology topology = read_topology(system.folder.path(), {2, 3, 5});
  CHECK(listed(topology) == "2/0/0 3/0/0 5/1/1");
}

TEST_CASE("topology: a quota of control groups limits the threads, not the processors") {
  const System system;
  system.write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  const Topology topology = system.read(8);
  CHECK(topology.processors.size() == 8);
  CHECK(usable_core_count(topology) == 3);
  CHECK(describe(topology) == "3 of 8 cores (control group), 1 L3 domain, 1 NUMA node");
  CHECK(usable_core_count(system.read(2)) == 2);
  CHECK(describe(system.read(2)) == "2 cores, 1 L3 domain, 1 NUMA node");
}

TEST_CASE(
    "topology has one L3 domain per node for files that /sys lacks or that have other content") {
  const System system;
  CHECK(listed(system.read(3)) == "0/0/0 1/0/0 2/0/0");
  CHECK(describe(system.read(1)) == "1 core, 1 L3 domain, 1 NUMA node");
  SUBCASE("no L3 cache: one domain a node") {
    system.node(0, "0-1");
    system.node(1, "2");
    for (const int number : {0, 1, 2}) system.processor(number, "");
    CHECK(listed(system.read(3)) == "0/0/0 1/0/0 2/1/1");
    CHECK(system.read(3).l3_bytes == 0);
  }
  SUBCASE("files of other content") {
    system.node(0, "x-y,3-,,-");
    system.write("sys/devices/system/node/nodes/cpulist", "0-2");
    system.cache(0, 3, "3", "Unified", "many", "none");
    const Topology topology = system.read(2);
    CHECK(listed(topology) == "0/0/0 1/0/0");
    CHECK(topology.l3_bytes == 0);
  }
}

TEST_CASE("topology: this machine's processors are those that the process may use") {
  const Topology topology = read_topology();
  std::vector<int> numbers = processor_numbers(topology.processors);
  std::sort(numbers.begin(), numbers.end());
  CHECK(numbers == available_cores());
}

TEST_CASE("topology: a simulated machine is made of equal nodes") {
  const Topology topology = simulate_topology({2, 2, 2, 512, 4096});
  CHECK(listed(topology) == "0/0/0 1/0/0 2/1/0 3/1/0 4/2/1 5/2/1 6/3/1 7/3/1");
  CHECK(topology.simulated);
  CHECK(topology.l2_bytes == 512 << 10);
  CHECK(topology.l3_bytes == 4 << 20);
}

}  // namespace trainer
