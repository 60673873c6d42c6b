// How the CPU backend reads its keys of the section parallel (DeviceOptions::settings).
#include "backend/open.h"

#include <doctest/doctest.h>

#include <map>

#include "base/error.h"
#include "base/threads/cores.h"

namespace trainer::backend {
namespace {

DeviceOptions cpu(std::vector<Setting> settings, std::int64_t replicas = 1) {
  DeviceOptions options;
  options.kind = DeviceKind::kCpu;
  options.replicas = replicas;
  options.settings = std::move(settings);
  return options;
}

// What the first of the backends chose, by key.
std::map<std::string, std::string> chosen(const DeviceOptions& options) {
  std::map<std::string, std::string> values;
  for (const Setting& setting : open_backends(options).front()->chosen_settings()) {
    values[setting.key] = setting.value;
  }
  return values;
}

TEST_CASE("the CPU uses the threads and lanes that it is given, and all cores otherwise") {
  const auto given = chosen(cpu({{"parallel.lanes", "2"}, {"parallel.threads", "6"}}));
  CHECK(given.at("parallel.lanes") == "2");
  CHECK(given.at("parallel.threads") == "6");
  const auto shared = chosen(cpu({{"parallel.threads", "6"}}, 3));
  CHECK(shared.at("parallel.lanes") == "2");
  CHECK(shared.at("parallel.threads") == "6");
  CHECK(chosen(cpu({})).at("parallel.threads") == std::to_string(usable_core_count()));
}

TEST_CASE("keys of other backends are not the CPU's, and a value that is no number is refused") {
  CHECK(chosen(cpu({{"parallel.threads", "2"}, {"parallel.autotune", "fast"}}))
            .at("parallel.threads") == "2");
  for (const char* value : {"", "0", "-1", "2x", "two"}) {
    CAPTURE(value);
    CHECK_THROWS_AS(open_backends(cpu({{"parallel.threads", value}})), DeviceError);
    CHECK_THROWS_AS(open_backends(cpu({{"parallel.lanes", value}})), DeviceError);
  }
}

TEST_CASE("other sums of the CPU come from another number of lanes") {
  for (const char* lanes : {"", "1", "3"}) {
    CAPTURE(lanes);
    DeviceOptions options = cpu({{"parallel.threads", "3"}});
    if (*lanes != '\0') options.settings.push_back({"parallel.lanes", lanes});
    const std::optional<DeviceOptions> other = with_other_sums(options);
    REQUIRE(other);
    const auto before = chosen(options), after = chosen(*other);
    CHECK(after.at("parallel.lanes") != before.at("parallel.lanes"));
    CHECK(after.at("parallel.lanes") == "4");
  }
}

TEST_CASE("more threads than cores are warned of, with the key that asks for them") {
  const std::string cores = std::to_string(usable_core_count());
  const std::string more = std::to_string(usable_core_count() + 1);
  CHECK(device_warning(cpu({{"parallel.threads", cores}, {"parallel.lanes", cores}})).empty());
  CHECK(device_warning(cpu({{"parallel.threads", more}}))
            .starts_with("parallel.threads: " + more + ", but this process may use " + cores));
  CHECK(device_warning(cpu({{"parallel.lanes", cores}}, 2))
            .starts_with("parallel.lanes: " + cores + " in each of 2 replicas, but"));
}

TEST_CASE("a planned machine has its cores, its shape and no GPU") {
  const Topology machine = simulate_topology({.domains_per_node = 2, .cores_per_domain = 6});
  plan_for_machine(machine);
  const auto all = chosen(cpu({})), shared = chosen(cpu({}, 3));
  const std::string warning = device_warning(cpu({{"parallel.threads", "13"}}));
  const bool no_gpu = list_gpus().gpus.empty() && !list_gpus().broken;
  const std::string shape = describe(machine_topology());
  DeviceOptions cuda = cpu({});
  cuda.kind = DeviceKind::kCuda;
  CHECK_THROWS_AS(open_backends(cuda), DeviceError);
  plan_for_machine({});
  CHECK(all.at("parallel.threads") == "12");
  CHECK(all.at("parallel.lanes") == "12");
  CHECK(shared.at("parallel.lanes") == "4");
  CHECK(warning.starts_with("parallel.threads: 13, but that machine has 12 cores"));
  CHECK(no_gpu);
  CHECK(shape == "12 cores, 2 L3 domains, 1 NUMA node");
  CHECK(machine_topology().processors.size() == available_cores().size());
}

}  // namespace
}  // namespace trainer::backend
