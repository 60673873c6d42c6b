// How the CPU backend uses its settings (DeviceOptions::Cpu).
#include "backend/open.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "base/threads/cores.h"

namespace trainer::backend {
namespace {

DeviceOptions cpu(DeviceOptions::Cpu settings, std::int64_t replicas = 1) {
  DeviceOptions options;
  options.kind = DeviceKind::kCpu;
  options.replicas = replicas;
  options.cpu = settings;
  return options;
}

// Returns the settings of the first backend.
ChosenSettings chosen(const DeviceOptions& options) {
  return open_backends(options).front()->chosen_settings();
}

TEST_CASE("open_backends: given threads and lanes are used, and all cores without them") {
  const ChosenSettings given = chosen(cpu({.threads = 6, .lanes = 2}));
  CHECK(given.lanes == 2);
  CHECK(given.threads == 6);
  const ChosenSettings shared = chosen(cpu({.threads = 6}, 3));
  CHECK(shared.lanes == 2);
  CHECK(shared.threads == 6);
  CHECK(chosen(cpu({})).threads == usable_core_count());
}

TEST_CASE("reorder_sums takes another number of lanes for the CPU") {
  using Lanes = std::optional<std::int64_t>;
  for (const Lanes lanes : {Lanes(), Lanes(1), Lanes(3)}) {
    CAPTURE(lanes.value_or(0));
    const DeviceOptions options = cpu({.threads = 3, .lanes = lanes});
    for (const std::int64_t variant : {0, 1, 3}) {
      const std::optional<DeviceOptions> other = reorder_sums(options, variant);
      REQUIRE(other);
      CHECK(chosen(*other).lanes != chosen(options).lanes);
      CHECK(chosen(*other).lanes == 4 + variant);
    }
  }
}

TEST_CASE("device_warning: a warning about more threads than cores has the key that sets them") {
  const std::string all = std::to_string(usable_core_count()),
                    more = std::to_string(usable_core_count() + 1);
  CHECK(
      device_warning(cpu({.threads = usable_core_count(), .lanes = usable_core_count()})).empty());
  CHECK(device_warning(cpu({.threads = usable_core_count() + 1}))
            .starts_with("parallel.threads: " + more + ", but this process may use " + all));
  CHECK(device_warning(cpu({.lanes = usable_core_count()}, 2))
            .starts_with("parallel.lanes: " + all + " in each of 2 replicas, but"));
}

TEST_CASE("plan_for_machine: backends of a simulated machine have its cores and shape and no GPU") {
  const Topology machine = simulate_topology({.domains_per_node = 2, .cores_per_domain = 6});
  plan_for_machine(machine);
  const ChosenSettings all = chosen(cpu({})), shared = chosen(cpu({}, 3));
  const std::string warning = device_warning(cpu({.threads = 13}));
  const bool no_gpu = list_gpus().gpus.empty() && !list_gpus().broken;
  const std::string shape = describe(machine_topology());
  DeviceOptions cuda = cpu({});
  cuda.kind = DeviceKind::kCuda;
  CHECK_THROWS_AS(open_backends(cuda), DeviceError);
  plan_for_machine({});
  CHECK(all.threads == 12);
  CHECK(all.lanes == 12);
  CHECK(shared.lanes == 4);
  CHECK(warning.starts_with("parallel.threads: 13, but that machine has 12 cores"));
  CHECK(no_gpu);
  CHECK(shape == "12 cores, 2 L3 domains, 1 NUMA node");
  CHECK(machine_topology().processors.size() == available_cores().size());
}

}  // namespace
}  // namespace trainer::backend
