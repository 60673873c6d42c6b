// The stage between the compiled graph and the CPU's lowering: the groups that it finds in models,
// and the patterns that it rejects. The conformance table compares the fused ops with their parts.
#include <doctest/doctest.h>

#include <map>
#include <sstream>

#include "backend/cpu/fuse/groups.h"
#include "backend/model_runs.h"
#include "backend/nets.h"
#include "support/backend.h"
#include "support/skip.h"

namespace trainer::test::fusion_test {
namespace {

using backend::SingleNode;
using backend::cpu::Grouping;
using backend::cpu::PartialNorm;

// x -> a -> b -> c, each of one node.
graph::Graph three_nodes() {
  Builder b(DType::kFloat32);
  graph::ValueId x = b.input({kBatch, 4});
  for (int i = 0; i < 3; ++i) {
    x = b.add1(graph::Activate{{graph::Activation::Kind::kTanh}}, {x});
  }
  b.output(x);
  return b.graph;
}

// Counts the steps of a float32 program with `lanes` lanes, by their names.
std::map<std::string, int> list_instructions(const Net& net, int lanes) {
  for (const Setup& setup : setups()) {
    if (setup.lanes != lanes || setup.type != DType::kFloat32) continue;
    backend::CompileOptions options;
    options.max_samples = 16;
    const Runner runner(open(setup), training_graph(net), options);
    std::stringstream program;
    runner.print(program);
    std::map<std::string, int> instructions;
    for (std::string line; std::getline(program, line);) {
      const auto begin = line.find(": ");
      if (begin == std::string::npos) continue;
      ++instructions[line.substr(begin + 2, line.find(' ', begin + 2) - begin - 2)];
    }
    return instructions;
  }
  return {};
}

// Returns the gradient of one batch, computed with `lanes` lanes.
std::vector<float> compute_gradient(const Net& net, int lanes) {
  const graph::Graph graph = training_graph(net);
  const auto values = starting_values(graph);
  backend::CompileOptions options;
  options.max_samples = 6;
  for (const Setup& setup : setups()) {
    if (setup.lanes != lanes || setup.type != DType::kFloat32) continue;
    Runner runner(open(setup), graph, options);
    start(runner, values);
    runner.run(6, batch(graph, 6, net), gradient_scalars(6));
    return lost(runner, values, trained(graph));
  }
  return {};
}

}  // namespace

TEST_CASE("Grouping: nodes that no pattern takes run alone, in their order") {
  const graph::Graph graph = three_nodes();
  Grouping grouping(graph);
  grouping.take({0, 1}, 1, SingleNode{&graph.nodes[1]});
  const auto groups = grouping.groups();
  REQUIRE(groups.size() == 2);
  CHECK(std::get<SingleNode>(groups[0]).node == &graph.nodes[1]);
  CHECK(std::get<SingleNode>(groups[1]).node == &graph.nodes[2]);
}

TEST_CASE("Grouping: a group that would run before what it reads is an error") {
  const graph::Graph graph = three_nodes();
  Grouping grouping(graph);
  grouping.take({0, 2}, 0, SingleNode{&graph.nodes[0]});
  CHECK_THROWS_WITH_AS(grouping.groups(), doctest::Contains("whose result it reads"),
                       std::logic_error);
}

TEST_CASE("Grouping: a node in two groups is an error") {
  const graph::Graph graph = three_nodes();
  Grouping grouping(graph);
  grouping.take({1}, 1, SingleNode{&graph.nodes[1]});
  CHECK_THROWS_WITH_AS(grouping.take({0, 1}, 1, SingleNode{&graph.nodes[1]}),
                       doctest::Contains("two fusions take"), std::logic_error);
}

TEST_CASE(
    "Grouping: several changes of one node make one group, and leave_output() returns the same "
    "values") {
  Builder b(DType::kFloat32);
  const auto image = b.input({kBatch, 3, 3, 8});
  b.add(graph::BatchNorm{1e-3f, {}}, {image, b.parameter({8}), b.parameter({8})});
  Grouping grouping(b.graph);
  grouping.change<PartialNorm>(0).moments = grouping.new_extra();
  const auto first = grouping.leave_output(0), second = grouping.leave_output(0);
  CHECK(first.coefficients == second.coefficients);
  const auto groups = grouping.groups();
  REQUIRE(groups.size() == 1);
  const auto& norm = std::get<PartialNorm>(groups[0]);
  CHECK(norm.moments == 0);
  CHECK(norm.coefficients == first.coefficients);
}

TEST_CASE("CPU program: instructions have the names of the fused ops") {
  if (uses_gpus()) TRAINER_SKIP("these are the fused ops of the CPU backend");
  auto instructions = list_instructions(kChained, 1);
  CHECK(instructions["depthwise_chain"] == 3);
  CHECK(instructions["depthwise_chain_backward"] == 3);
  CHECK(instructions["residual_sum"] == 1);
  CHECK(instructions["residual_gradient"] == 1);
  // The norm after the block's entrance has two readers.
  CHECK(instructions["partial_batch_norm"] == 5);
  CHECK(instructions["batch_norm"] == 1);
  CHECK(instructions["partial_batch_norm_backward"] == 5);
  CHECK(instructions["batch_norm_backward"] == 1);
  CHECK(instructions["add"] == 1);  // the sum of the gradients of the block's input
  CHECK(instructions["activate"] == 0);
}

TEST_CASE("CPU program: the first convolution and its max pooling are one fused op") {
  if (uses_gpus()) TRAINER_SKIP("these are the fused ops of the CPU backend");
  const auto fuses = [](const std::string& layers, const Shape& image = {12, 12, 2}) {
    auto instructions =
        list_instructions({layers, "{layers: [" + layers + ", flatten, dense: 4]}", image}, 1);
    // A gradient may have steps that convert its inputs.
    const bool is_fused = instructions["conv_max_pool"] > 0;
    CHECK(is_fused == (instructions["conv_max_pool_backward_weights"] > 0));
    CHECK((instructions["pool"] > 0) == (instructions["pool_backward"] > 0));
    return is_fused;
  };
  CHECK(fuses("conv: {filters: 2, activation: relu}, max_pool"));
  CHECK(fuses("conv: {filters: 2, padding: same}, max_pool"));
  CHECK(fuses("zero_pad: {padding: 1}, conv: {filters: 2}, max_pool"));
  CHECK(fuses("conv: {filters: 2, kernel_size: 5}, max_pool, conv: {filters: 3}, max_pool"));
  CHECK(fuses("conv: {filters: 2}, max_pool", {12, 12, 4}));
  CHECK_FALSE(fuses("conv: {filters: 2}, max_pool", {12, 12, 5}));
  CHECK_FALSE(fuses("conv: {filters: 2, activation: tanh}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, activation: leaky_relu}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, strides: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, dilation_rate: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, groups: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, kernel_size: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2}, average_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2}, max_pool: {pool_size: 3, strides: 2}"));
  CHECK_FALSE(fuses("conv: {filters: 2}, max_pool: {padding: [1, 1, 1, 1]}"));
  CHECK_FALSE(fuses("batch_norm, conv: {filters: 2}, max_pool"));
}

TEST_CASE("CPU program: each branch fuses its convolution and max pooling") {
  if (uses_gpus()) TRAINER_SKIP("these are the fused ops of the CPU backend");
  const char* const fusable =
      "conv: {filters: 2, name: c, inputs: [input]}, max_pool: {name: p}, flatten: {name: f}, ";
  for (const char* const other : {
           "conv: {filters: 2, name: a, activation: tanh, inputs: [input]}, max_pool: {name: b}",
           "conv: {filters: 2, name: a, inputs: [input]}, average_pool: {name: b}",
           "conv: {filters: 2, padding: same, name: a, inputs: [input]}, "
           "conv: {filters: 2, padding: same, name: d}, max_pool: {name: e}, "
           "max_pool: {name: q, inputs: [input]}, add: {inputs: [e, q], name: b}",
           "conv: {filters: 2, padding: same, name: a, inputs: [input]}, max_pool: {name: e}, "
           "average_pool: {name: q, inputs: [a]}, add: {inputs: [e, q], name: b}",
       }) {
    const std::string model = concat("{layers: [", other, ", flatten: {name: g}, ", fusable,
                                     "concatenate: {inputs: [f, g]}, dense: 4]}");
    CAPTURE(model);
    auto instructions = list_instructions({"branches", model, {12, 12, 2}}, 1);
    CHECK(instructions["conv_max_pool"] == 1);
    CHECK(instructions["conv_max_pool_backward_weights"] > 0);
  }
}

TEST_CASE("CPU program: lanes compute large dense layers as fused ops") {
  if (uses_gpus()) TRAINER_SKIP("these are the fused ops of the CPU backend");
  auto alone = list_instructions(kWide, 1), together = list_instructions(kWide, 2);
  CHECK(alone["joint_dense"] == 0);
  CHECK(together["joint_dense"] == 4);  // one activation is a step of its own
  CHECK(together["joint_dense_backward_data"] == 3);
  CHECK(together["joint_dense_backward_weights"] == 3);
  CHECK(together["dense"] == 0);
}

TEST_CASE("CPU program: dense layers of several lanes have the gradients of one lane") {
  if (uses_gpus()) TRAINER_SKIP("these are the fused ops of the CPU backend");
  const std::vector<float> alone = compute_gradient(kWide, 1);
  REQUIRE_FALSE(alone.empty());  // a setup has one lane
  CHECK(distance(compute_gradient(kWide, 2), {alone.begin(), alone.end()}) < 1e-5);
}

}  // namespace trainer::test::fusion_test
