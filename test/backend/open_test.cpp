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

TEST_CASE("Platform: backends of a simulated machine have its cores and shape and no GPU") {
  Platform platform;
  platform.planned_machine = simulate_topology({.domains_per_node = 2, .cores_per_domain = 6});
  const auto planned = [&](DeviceOptions options) {
    options.platform = platform;
    return options;
  };
  const ChosenSettings all = chosen(planned(cpu({})));
  CHECK(all.threads == 12);
  CHECK(all.lanes == 12);
  CHECK(chosen(planned(cpu({}, 3))).lanes == 4);
  CHECK(device_warning(planned(cpu({.threads = 13})))
            .starts_with("parallel.threads: 13, but that machine has 12 cores"));
  CHECK(list_gpus(platform).gpus.empty());
  CHECK_FALSE(list_gpus(platform).broken);
  CHECK(describe(machine_topology(platform)) == "12 cores, 2 L3 domains, 1 NUMA node");
  DeviceOptions cuda = planned(cpu({}));
  cuda.kind = DeviceKind::kCuda;
  CHECK_THROWS_AS(open_backends(cuda), DeviceError);
  CHECK(machine_topology({}).processors.size() == available_cores().size());
}

TEST_CASE(
    "read_platform: the cache of tuning is that of plans, or in the folder of caches or home") {
  const auto tuning = [](const Environment& environment) {
    return read_platform(environment).tuning_cache;
  };
  CHECK(tuning({}).empty());
  CHECK(tuning({{"HOME", "/home/a"}}) == "/home/a/.cache/trainer");
  CHECK(tuning({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "/cache"}}) == "/cache/trainer");
  const Platform given = read_platform({{"TRAINER_CUDA_PLAN_CACHE", "/plans"},
                                        {"TRAINER_CUDA_PLUGIN", "/x.so"},
                                        {"HOME", "/home/a"}});
  CHECK(given.tuning_cache == "/plans");
  CHECK(given.plan_cache == "/plans");
  CHECK(given.cuda_plugin == "/x.so");
}

}  // namespace
}  // namespace trainer::backend
