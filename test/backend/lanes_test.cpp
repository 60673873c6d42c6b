// How many lanes the CPU backend takes for a model, a batch and a number of threads, and that any
// of them give the same update.
#include "backend/cpu/lanes/lanes.h"

#include <doctest/doctest.h>

#include <map>

#include "backend/cpu/cpu.h"
#include "backend/model_runs.h"
#include "backend/nets.h"
#include "base/threads/topology.h"
#include "compile/compile.h"

namespace trainer::test {
namespace {

using backend::cpu::choose_lanes;
using backend::cpu::CpuVariables;

using backend::cpu::Lanes;

Lanes choose(const Net& net, int threads, std::int64_t samples, const MachineShape& shape) {
  const graph::Graph graph = training_graph(net);
  backend::CompileOptions options;
  options.max_samples = samples;
  const Topology machine = simulate_topology(shape);
  return choose_lanes(graph, CpuVariables(graph), options, threads, machine.processors);
}

int lanes(const Net& net, int threads, std::int64_t samples) {
  const int unknown = choose(net, threads, samples, {}).count;
  CHECK(choose(net, threads, samples, {.cores_per_domain = threads}).count == unknown);
  return unknown;
}

// `lanes`: 0 for as many as the backend takes.
std::unique_ptr<backend::Backend> open_with(int threads, int lanes = 0) {
  backend::cpu::CpuOptions options;
  options.threads = threads;
  options.lanes = lanes;
  return backend::cpu::open_backend(options);
}

}  // namespace

TEST_CASE("choose_lanes takes one lane per thread for small gradients") {
  for (const int threads : {1, 2, 3, 4}) CHECK(lanes(kPlain, threads, 64) == threads);
  // Several micro-batches per lane are added up in a second buffer of each.
  CHECK(lanes(kPlain, 2, 512) == 2);
  CHECK(lanes(kPlain, 4, 512) == 2);
  CHECK(lanes(kPlain, 4, 256) == 4);
  CHECK(lanes(kNormalised, 4, 512) == 4);
}

TEST_CASE(
    "choose_lanes takes few lanes with few idle threads for large gradients and many threads") {
  CHECK(lanes(kPlain, 64, 64) == 4);
  CHECK(lanes(kPlain, 6, 64) == 3);
  CHECK(lanes(kPlain, 5, 64) == 4);
  CHECK(lanes(kPlain, 7, 64) == 3);
  CHECK(lanes(kPlain, 64, 2) == 2);
}

TEST_CASE(
    "choose_lanes takes fewer lanes for samples that the threads divide unevenly if that is "
    "faster") {
  // 40 lanes would leave 22 threads idle; 31 lanes of 2 threads take two samples or one each.
  const Lanes even = choose(kWide, 62, 40, {});
  CHECK(even.count == 20);
  CHECK(even.reason == "31 lanes of 2 threads would divide 40 samples less evenly");
  CHECK(lanes(kWide, 6, 16) == 6);  // the fastest, although they take 3, 3, 3, 3, 2 and 2
  // By the model 18 lanes of 3 threads take the least time, and 64 lanes 1.14 times as long: less
  // than its error.
  CHECK(lanes(kWide, 64, 72) == 64);
  // 4 lanes of 4 threads take the least time, and 6 lanes of 3 threads 1.24 times as long.
  CHECK(lanes(kWide, 19, 7) == 4);
  CHECK(lanes(kWide, 2, 3) == 2);
}

TEST_CASE("choose_lanes takes fewer lanes where many threads would be idle") {
  const Lanes seven = choose(kWide, 7, 5, {});
  CHECK(seven.count == 3);
  CHECK(seven.reason == "5 lanes would leave 2 of 7 threads idle");
  CHECK(lanes(kWide, 4, 3) == 3);  // a quarter may be idle
}

TEST_CASE("choose_lanes takes more lanes for a gradient that exists once") {
  CHECK(lanes(kWide, 16, 16) == 16);
  CHECK(lanes(kWide, 64, 64) == 64);
}

TEST_CASE(
    "choose_lanes puts the threads of a lane into one of several L3 caches if fewer lanes allow "
    "it") {
  // The choice is that of one cache: four lanes of four.
  CHECK(choose(kPlain, 16, 64, {.domains_per_node = 4, .cores_per_domain = 4}).count == 4);
  CHECK(choose(kPlain, 16, 64, {.domains_per_node = 2, .cores_per_domain = 8}).count == 4);
  // Three lanes of two would span two caches of three cores.
  const Lanes two = choose(kPlain, 6, 64, {.domains_per_node = 2, .cores_per_domain = 3});
  CHECK(two.count == 2);
  CHECK(two.reason == "3 lanes of 2 threads would span L3 domains");
  CHECK(choose(kPlain, 24, 64, {.domains_per_node = 3, .cores_per_domain = 8}).count == 3);
  // No number of lanes fits a cache of one core: as many as there may be.
  CHECK(choose(kPlain, 16, 64, {.domains_per_node = 16}).count == 4);
  // One lane per thread has nothing to share.
  CHECK(choose(kWide, 16, 16, {.domains_per_node = 4, .cores_per_domain = 4}).count == 16);
}

TEST_CASE("choose_lanes: the threads of lanes that need several L3 caches share a NUMA node") {
  const MachineShape three{.nodes = 3, .domains_per_node = 4, .cores_per_domain = 2};
  const Lanes lanes = choose(kPlain, 24, 64, three);
  CHECK(lanes.count == 3);
  CHECK(lanes.reason ==
        "4 lanes of 6 threads would span NUMA nodes; a step reads 1 MiB of gradients across NUMA "
        "nodes");
  // The reason of one lane per thread has the cost of the nodes, too.
  CHECK(choose(kPlain, 2, 64, {.nodes = 2}).reason ==
        "a step reads 1 MiB of gradients across NUMA nodes");
  CHECK(choose(kPlain, 2, 64, {.domains_per_node = 2}).reason.empty());
}

TEST_CASE("choose_lanes takes one lane per thread for an evaluation graph") {
  compile::Options options;
  const graph::Graph graph = compile::evaluation_graph(forward_graph(kPlain), options, false);
  CHECK(choose_lanes(graph, CpuVariables(graph), {}, 8).count == 8);
}

TEST_CASE(
    "Executable: gradients take at most four times the memory of the parameters for any threads") {
  for (const Net& net : {kPlain, kNormalised, kWide}) {
    const graph::Graph graph = training_graph(net);
    const std::int64_t parameters = CpuVariables(graph).flat_count() * 4;
    for (const int threads : {1, 2, 8, 16, 64}) {
      for (const std::int64_t samples : {3, 64, 300}) {
        const auto backend = open_with(threads);
        backend::CompileOptions options;
        options.max_samples = samples;
        Runner runner(*backend, graph, options);
        const std::int64_t gradients = runner.memory().gradients;
        CHECK_MESSAGE(gradients <= 4 * parameters, net.name, ", ", threads, " threads, batch ",
                      samples);
        start(runner, starting_values(graph));
        runner.run(samples, batch(graph, samples, net), gradient_scalars(samples));
        CHECK(runner.memory().gradients == gradients);
      }
    }
  }
}

TEST_CASE("Executable: more threads than cores give the update of the reference") {
  for (const Net& net : {kPlain, kNormalised, kWide, kSeparable, kTransformer}) {
    const graph::Graph graph = training_graph(net);
    const auto values = starting_values(graph);
    for (const int threads : {3, 7, 16}) {
      const auto backend = open_with(threads);
      backend::CompileOptions options;
      options.max_samples = 40;
      Runner runner(*backend, graph, options);
      for (const std::int64_t samples : {40, 9, 1}) {
        start(runner, values);
        Reference reference(graph);
        reference.kept = values;
        const auto inputs = batch(graph, samples, net);
        const auto scalars = gradient_scalars(samples);
        const auto expected = reference.run(samples, inputs, scalars);
        const auto got = runner.run(samples, inputs, scalars);
        const auto names = trained(graph);
        CHECK(distance(got[1], expected[1]) < 5e-5);
        CHECK(distance(lost(runner, values, names), lost(reference, values, names)) < 5e-5);
      }
    }
  }
}

TEST_CASE("Executable: the project's own kernels give the same bits with any threads per lane") {
  const Net net{"own kernels",
                R"({layers: [batch_norm, activation: {function: relu, name: a},
                  max_pool: {pool_size: 3, strides: 2, padding: same}, dropout: 0.25,
                  batch_norm: {name: b}, average_pool: {pool_size: 3, strides: 1, padding: same, name: c},
                  add: {inputs: [b, c]}, batch_norm, activation: relu6,
                  global_max_pool]})",
                {9, 10, 40},
                40};
  const graph::Graph graph = training_graph(net);
  const auto values = starting_values(graph);
  const auto results = [&](int threads, std::int64_t samples) {
    const auto backend = open_with(threads, 1);
    backend::CompileOptions options;
    options.max_samples = 7;
    Runner runner(*backend, graph, options);
    start(runner, values);
    auto all = runner.run(samples, batch(graph, samples, net), gradient_scalars(samples));
    for (const auto& [name, value] : values) all.push_back(runner.read(name));
    return all;
  };
  for (const std::int64_t samples : {7, 1}) {
    const auto expected = results(1, samples);
    for (const int threads : {2, 3, 7, 16}) CHECK(results(threads, samples) == expected);
  }
}

TEST_CASE("chosen_settings has the number of lanes, and the reason why there are not more") {
  const auto backend = open_with(16);
  const graph::Graph graph = training_graph(kPlain);
  backend::CompileOptions options;
  options.max_samples = 64;
  const Runner runner(*backend, graph, options);
  CHECK(backend->describe().starts_with("cpu, 4 lanes x 4 threads, "));
  const backend::ChosenSettings settings = backend->chosen_settings();
  CHECK(settings.lanes == 4);
  CHECK(settings.lanes_reason ==
        "16 lanes would hold gradients of more than 4 times the parameters");
}

}  // namespace trainer::test
