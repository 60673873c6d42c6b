// Training steps that compute activations again against those that keep them: the same bits.
#include <doctest/doctest.h>

#include <cmath>

#include "backend/cpu/cpu.h"
#include "backend/nets.h"
#include "compile/compile.h"
#include "support/backend.h"
#include "support/skip.h"

namespace trainer::test::recompute_test {
namespace {

struct Case {
  Net net;
  bool adds_nodes = true;  // the graph with recomputation has more nodes
};

const std::vector<Case>& small_cases() {
  static const std::vector<Case> kAll{
      {{"chain",
        R"({layers: [conv: {filters: 16, padding: same, activation: relu},
          conv: {filters: 16, padding: same, activation: relu}, max_pool: 2,
          conv: {filters: 24, padding: same, activation: tanh},
          conv: {filters: 24, padding: same, activation: gelu}, average_pool: 2, flatten,
          dense: {units: 16, activation: relu}, dense: 4]})",
        {16, 12, 3}},
       false},
      // A segment would end between the first convolution and its pooling if it could.
      {{"first convolution with max pooling",
        R"({layers: [conv: {filters: 16, padding: same, activation: relu}, max_pool: 2,
          conv: {filters: 24, padding: same, activation: gelu},
          conv: {filters: 24, padding: same, activation: gelu},
          conv: {filters: 24, padding: same, activation: gelu}, average_pool: 2, flatten,
          dense: 4]})",
        {16, 12, 1}}},
      {{"dropout",
        R"({layers: [conv: {filters: 8, padding: same, activation: relu}, dropout: 0.3,
          conv: {filters: 8, padding: same, activation: relu}, dropout: 0.25,
          conv: {filters: 8, padding: same, activation: relu}, max_pool: 2, dropout: 0.2, flatten,
          dense: {units: 12, activation: relu}, dropout: 0.4, dense: 4]})",
        {10, 10, 1}}},
      {{"batch norm and residuals",
        R"({layers: [
          conv: {filters: 8, padding: same, use_bias: false}, batch_norm,
          activation: {function: relu, name: a},
          conv: {filters: 8, padding: same, use_bias: false}, batch_norm, activation: relu,
          conv: {filters: 8, padding: same, use_bias: false}, batch_norm: {name: b},
          add: {inputs: [a, b]}, activation: {function: relu, name: c},
          conv: {filters: 48, kernel_size: 1, use_bias: false}, batch_norm, activation: relu6,
          depthwise_conv: {padding: same, use_bias: false}, batch_norm, activation: relu6,
          conv: {filters: 8, kernel_size: 1, use_bias: false}, batch_norm: {name: d},
          add: {inputs: [c, d]}, global_average_pool, dense: 4]})",
        {12, 12, 3}}},
      // When a value is read again, it has a copy in another format, too.
      {{"branches of few channels",
        R"({layers: [
          conv: {filters: 4, padding: same, name: a},
          conv: {filters: 4, padding: same, name: b, inputs: input}, add: {inputs: [a, b]},
          conv: {filters: 2}, conv: {filters: 2, kernel_size: 1, name: c},
          conv: {filters: 4, padding: same, name: d, inputs: c},
          conv: {filters: 4, padding: same, name: e, inputs: c},
          conv: {filters: 4, padding: same, name: f, inputs: c},
          add: {inputs: [f, d, e], name: g},
          conv: {filters: 1, padding: same, name: h, inputs: g},
          conv: {filters: 1, padding: same, name: i, inputs: g, batch_norm: true},
          add: {inputs: [i, h]}, global_max_pool, dense: 4]})",
        {7, 6, 3}}},
      // Segments would end between the norms and the depthwise convolutions if they could.
      {{"inverted residuals",
        R"({layers: [
          conv: {filters: 16, padding: same, use_bias: false}, batch_norm, activation: relu6,
          depthwise_conv: {padding: same, use_bias: false}, batch_norm, activation: relu6,
          conv: {filters: 8, kernel_size: 1, use_bias: false}, batch_norm,
          conv: {filters: 48, kernel_size: 1, use_bias: false}, batch_norm, activation: relu6,
          depthwise_conv: {strides: 2, padding: same, use_bias: false}, batch_norm,
          activation: relu6,
          conv: {filters: 16, kernel_size: 1, use_bias: false}, batch_norm: {name: a},
          conv: {filters: 96, kernel_size: 1, use_bias: false}, batch_norm, activation: relu6,
          depthwise_conv: {padding: same, use_bias: false}, batch_norm, activation: relu6,
          conv: {filters: 16, kernel_size: 1, use_bias: false}, batch_norm: {name: b},
          add: {inputs: [a, b]},
          conv: {filters: 96, kernel_size: 1, use_bias: false}, batch_norm, activation: relu6,
          depthwise_conv: {padding: same, use_bias: false}, batch_norm, activation: relu6,
          conv: {filters: 32, kernel_size: 1, use_bias: false}, batch_norm, activation: relu6,
          global_average_pool, dense: 4]})",
        {20, 20, 3}}},
      {kTransformer}};
  return kAll;
}

graph::Graph make_training_graph(const Net& net, DType type, bool recompute) {
  compile::Options options;
  options.activations = type;
  options.update.rule = graph::AdamRule{};
  options.recompute = recompute;
  return compile::training_graph(forward_graph(net), options);
}

// Three steps, the last of them short.
std::vector<std::vector<float>> run(backend::Backend& backend, const graph::Graph& graph,
                                    const Net& net) {
  auto values = starting_values(graph);
  for (const graph::Value& value : graph.values) {  // of Adam's second moments there is a root
    if (value.role != graph::Role::kSlot) continue;
    for (double& moment : values[value.name]) moment = std::abs(moment);
  }
  return run_steps(backend, graph, net, values, {9, 9, 5});
}

// Compares a net with and without recomputation in all setups.
void check_same_bits(const Case& tested) {
  const Net& net = tested.net;
  CAPTURE(net.name);
  for (const Setup& setup : setups()) {
    CAPTURE(to_string(setup));
    backend::Backend& backend = open(setup);
    const graph::Graph kept = make_training_graph(net, setup.type, false);
    const graph::Graph again = make_training_graph(net, setup.type, true);
    CHECK((again.nodes.size() > kept.nodes.size()) == tested.adds_nodes);
    const auto expected = run(backend, kept, net);
    const auto found = run(backend, again, net);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);
      CHECK(found[i] == expected[i]);  // NaN would differ from itself
    }
  }
}

}  // namespace

TEST_CASE("recompute: outputs, parameters, slots and statistics of small nets stay the same bits") {
  for (const Case& tested : small_cases()) check_same_bits(tested);
}

TEST_CASE(
    "recompute: mobilenet_v2 keeps its outputs, parameters, slots and statistics bit by bit") {
  if (uses_gpus() || uses_reference_backend()) {
    TRAINER_SKIP("its 53 convolutions take minutes there; the small nets have the same groups");
  }
  check_same_bits({{"mobilenet_v2",
                    "{backbone: {name: mobilenet_v2}, head: [flatten, dense: 4]}",
                    {32, 32, 3}}});
}

TEST_CASE("recompute: several threads per lane give the same bits") {
  if (uses_gpus() || uses_reference_backend()) TRAINER_SKIP("only the CPU has lanes");
  for (const int lanes : {1, 2}) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      backend::cpu::CpuOptions options;
      options.lanes = lanes;
      options.threads = 3 * lanes;
      const auto backend = backend::cpu::open_backend(options);
      if (!backend->supports(type)) continue;
      const Net& net = small_cases().back().net;  // inverted residuals
      CHECK(run(*backend, make_training_graph(net, type, true), net) ==
            run(*backend, make_training_graph(net, type, false), net));
    }
  }
}

TEST_CASE("recompute: an executable takes less memory for activations") {
  if (uses_reference_backend()) TRAINER_SKIP("the reference keeps all values of a graph");
  backend::Backend& backend = open(setups()[0]);
  struct Row {
    const char* backbone;
    double most;  // share that is left
  };
  for (const Row& row : {Row{"mobilenet_v2", 0.8}}) {
    const Net net{row.backbone,
                  concat("{backbone: {name: ", row.backbone, "}, head: [flatten, dense: 4]}"),
                  {64, 64, 3}};
    std::int64_t bytes[2] = {};
    for (const bool recompute : {true, false}) {  // executables share arenas, which only grow
      const graph::Graph graph = make_training_graph(net, DType::kFloat32, recompute);
      backend::CompileOptions options;
      options.max_samples = 8;
      const auto variables = backend.allocate(graph);
      bytes[recompute ? 1 : 0] = backend.compile(graph, *variables, options)->memory().activations;
    }
    MESSAGE(std::string(row.backbone), ": ", bytes[0], " to ", bytes[1], " bytes");
    CHECK(static_cast<double>(bytes[1]) < row.most * static_cast<double>(bytes[0]));
  }
}

}  // namespace trainer::test::recompute_test
