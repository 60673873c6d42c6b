// Where the threads of lanes run, and that their memory is first written there.
#include "backend/cpu/lanes/lane_cores.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "backend/cpu/cpu.h"
#include "backend/cpu/lanes/arenas.h"
#include "backend/cpu/lanes/first_touch.h"
#include "backend/cpu/ops/thread_parts.h"
#include "backend/model_runs.h"
#include "backend/nets.h"
#include "base/error.h"

namespace trainer::backend::cpu {
namespace {

// "0-1 2-3" of two lanes of two threads.
std::string listed(const LaneCores& cores) {
  std::string text;
  for (const std::vector<Processor>& lane : cores.lanes) {
    text += concat(text.empty() ? "" : " ", lane.front().number, '-', lane.back().number);
  }
  return text;
}

LaneCores place(const MachineShape& shape, int lanes, int threads) {
  return place_lanes(simulate_topology(shape).processors, lanes, threads);
}

// Pages of a range that are in memory.
std::int64_t resident(const void* data, std::int64_t bytes) {
  std::vector<unsigned char> pages(static_cast<std::size_t>((bytes + 4095) / 4096));
  REQUIRE(::mincore(const_cast<void*>(data), static_cast<std::size_t>(bytes), pages.data()) == 0);
  return std::count_if(pages.begin(), pages.end(),
                       [](unsigned char page) { return (page & 1) != 0; });
}

std::int64_t count_pages(std::int64_t bytes) { return (bytes + 4095) / 4096; }

std::int64_t count_faults(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  return usage.ru_minflt;
}
std::int64_t faults_of_this_thread() { return count_faults(RUSAGE_THREAD); }

// True if the system gives small memory page by page.
bool has_fault_per_page() {
  constexpr std::int64_t kPages = 200;
  const Memory memory(kPages * 4096);
  const std::int64_t before = faults_of_this_thread();
  for (std::int64_t page = 0; page < kPages; ++page) memory.data()[page * 4096] = 1;
  return faults_of_this_thread() - before >= kPages;
}

std::vector<int> cores_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace

TEST_CASE("place_lanes takes the cores of a lane from one L3 cache, then one node, then any") {
  const MachineShape machine{.nodes = 2, .domains_per_node = 2, .cores_per_domain = 3};
  const LaneCores pairs = place(machine, 4, 2);
  CHECK(pairs.locality == Locality::kDomain);
  CHECK(listed(pairs) == "0-1 3-4 6-7 9-10");
  CHECK(listed(place(machine, 4, 3)) == "0-2 3-5 6-8 9-11");
  const LaneCores in_nodes = place(machine, 6, 2);
  CHECK(in_nodes.locality == Locality::kNode);
  CHECK(listed(in_nodes) == "0-1 2-3 4-5 6-7 8-9 10-11");
  const LaneCores wide = place(machine, 2, 5);
  CHECK(wide.locality == Locality::kNode);
  CHECK(listed(wide) == "0-4 6-10");
  const LaneCores anywhere = place(machine, 3, 4);
  CHECK(anywhere.locality == Locality::kMachine);
  CHECK(listed(anywhere) == "0-3 4-7 8-11");
  CHECK(place(machine, 1, 12).locality == Locality::kMachine);
}

TEST_CASE("place_lanes returns no cores for more threads than processors") {
  CHECK(place({.cores_per_domain = 4}, 5, 1).lanes.empty());
  CHECK(place_lanes({}, 1, 1).lanes.empty());
  CHECK(place_lanes({}, 1, 1).locality == Locality::kDomain);
}

TEST_CASE("place_lanes puts each lane into one of several unequal L3 caches where it fits") {
  const std::vector<Processor> processors{{4, 0, 0}, {6, 0, 0}, {1, 1, 0}, {3, 2, 0}, {5, 2, 0}};
  CHECK(listed(place_lanes(processors, 2, 2)) == "4-6 3-5");
  CHECK(place_lanes(processors, 3, 1).locality == Locality::kDomain);
}

TEST_CASE("bytes_across_nodes equals the sum counted lane by lane for any number of lanes") {
  constexpr std::int64_t kBytes = 7200;
  const MachineShape machine{.nodes = 3, .domains_per_node = 1, .cores_per_domain = 4};
  for (const int lanes : {1, 2, 3, 6, 8, 12}) {
    const LaneCores cores = place(machine, lanes, 12 / lanes);
    double bytes = 0;  // each lane reads its slice of every lane's gradient
    for (const auto& reader : cores.lanes) {
      for (const auto& owner : cores.lanes) {
        if (reader.front().node != owner.front().node) bytes += kBytes / double(lanes);
      }
    }
    CHECK(bytes_across_nodes(cores, kBytes) == doctest::Approx(bytes));
  }
  CHECK(bytes_across_nodes(place({.cores_per_domain = 4}, 4, 1), kBytes) == 0);
  CHECK(bytes_across_nodes({}, kBytes) == 0);
}

TEST_CASE("node_cores returns the processors of all nodes that a lane is on") {
  const Topology machine =
      simulate_topology({.nodes = 2, .domains_per_node = 1, .cores_per_domain = 3});
  using Numbers = std::vector<std::vector<int>>;
  CHECK(node_cores(place_lanes(machine.processors, 2, 2), machine.processors) ==
        Numbers{{0, 1, 2}, {3, 4, 5}});
  CHECK(node_cores(place_lanes(machine.processors, 1, 6), machine.processors) ==
        Numbers{{0, 1, 2, 3, 4, 5}});
}

TEST_CASE(
    "LaneThreads: threads stay on the cores of their lane, and the caller returns to its own") {
  const std::vector<int> before = cores_of_this_thread();
  const std::vector<int> last{before.back()}, first{before.front()};
  LaneThreads lanes(2, 2, {last, first});
  std::mutex mutex;
  std::multiset<std::vector<int>> seen[2];
  CallContext context;
  context.threads = lanes.threads_per_lane();
  lanes.run([&](int lane) {
    over_parts(context, context.threads, [&](std::int64_t, std::int64_t, int) {
      const std::lock_guard lock(mutex);
      seen[lane].insert(cores_of_this_thread());
    });
  });
  CHECK(seen[0] == std::multiset<std::vector<int>>{last, last});
  CHECK(seen[1] == std::multiset<std::vector<int>>{first, first});
  CHECK(cores_of_this_thread() == before);
}

TEST_CASE(
    "Memory and Arenas: no page of the buffer of a lane is in memory before the first write") {
  constexpr std::int64_t kBytes = 300 * 4096;
  Arenas arenas(2);
  CHECK(resident(arenas.get(0, kBytes), kBytes) == 0);
  const Memory memory(kBytes);
  CHECK(resident(memory.data(), kBytes) == 0);
  memory.data()[0] = 1;
  CHECK(resident(memory.data(), kBytes) >= 1);
}

TEST_CASE("touch_slices: each lane touches its slice of the parameters, and no value changes") {
  const graph::Graph graph = test::training_graph(test::kWide);
  CpuVariables variables(graph);
  const std::int64_t bytes = variables.flat_count() * 4;
  REQUIRE(resident(variables.parameters(), bytes) == 0);
  variables.parameters()[1024] = 3;
  LaneThreads one(1, 1);
  touch_slices(variables, one);
  CHECK(resident(variables.parameters(), bytes) == count_pages(bytes));
  CHECK(variables.parameters()[1024] == 3);
  CHECK(variables.parameters()[0] == 0);

  // Half of the pages by this thread, which is lane 0.
  const auto faults_with = [&](int lanes) {
    const CpuVariables fresh(graph);
    LaneThreads threads(lanes, 1);
    const std::int64_t before = faults_of_this_thread();
    touch_slices(fresh, threads);
    CHECK(resident(fresh.parameters(), bytes) == count_pages(bytes));
    return static_cast<double>(faults_of_this_thread() - before);
  };
  const double alone = faults_with(1);
  if (has_fault_per_page()) CHECK(faults_with(2) / alone == doctest::Approx(0.5).epsilon(0.2));
}

TEST_CASE("lanes: the lane that owns activations and gradients writes them first") {
  const test::Net net{
      "large images", "{layers: [conv: {filters: 16}, flatten, dense: 4]}", {16, 16, 1}};
  const graph::Graph graph = test::training_graph(net);
  CpuOptions options;
  options.threads = options.lanes = 2;
  const auto backend = open_backend(options);
  backend::CompileOptions compile;
  compile.max_samples = 64;
  test::Runner runner(*backend, graph, compile);
  test::start(runner, test::starting_values(graph));
  const auto inputs = test::batch(graph, 64, net);
  const std::int64_t mine = faults_of_this_thread(), all = count_faults(RUSAGE_SELF);
  runner.run(64, inputs, test::gradient_scalars(64));
  const auto own = static_cast<double>(faults_of_this_thread() - mine);
  const auto total = static_cast<double>(count_faults(RUSAGE_SELF) - all);
  if (!has_fault_per_page()) return;
  const backend::MemoryReport memory = runner.memory();
  CHECK(total > 0.5 * static_cast<double>(count_pages(memory.activations + memory.gradients)));
  CHECK(own / total < 0.75);
}

TEST_CASE("lanes: parameters are touched before training only if the lanes are on several nodes") {
  const graph::Graph graph = test::training_graph(test::kWide);
  const auto touched = [&](CpuOptions::Binding binding, int nodes) {
    CpuOptions options;
    options.threads = 2;
    options.binding = binding;
    options.processors = {{0, 0, 0}, {1, nodes - 1, nodes - 1}};
    const auto backend = open_backend(options);
    const auto variables = backend->allocate(graph);
    backend::CompileOptions compile;
    compile.max_samples = 8;
    const auto executable = backend->compile(graph, *variables, compile);
    const auto& own = dynamic_cast<const CpuVariables&>(*variables);
    return resident(own.parameters(), own.flat_count() * 4) > 0;
  };
  CHECK(touched(CpuOptions::Binding::kNodes, 2));
  CHECK(touched(CpuOptions::Binding::kProcessors, 2));
  CHECK_FALSE(touched(CpuOptions::Binding::kNodes, 1));
  CHECK_FALSE(touched(CpuOptions::Binding::kNone, 2));
}

}  // namespace trainer::backend::cpu
