// Training steps of a pooling that pads its input itself, against those with padding before it.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "backend/model_runs.h"
#include "base/text.h"
#include "compile/compile.h"
#include "support/backend.h"

namespace trainer::test::fold_padding_test {
namespace {

// An average over one pixel changes nothing, but the padding before it cannot move into the
// maximum.
constexpr const char* kUnchanged = "average_pool: 1, ";

// The maximum and an average read the same ReLU.
Net make_net(const std::string& activation, const std::string& padding, const std::string& between,
             const std::string& pool) {
  return {"zero_pad",
          concat("{layers: [conv: {filters: 12, padding: same, use_bias: false}, batch_norm, "
                 "activation: {function: ",
                 activation, ", name: a}, zero_pad: {padding: ", padding, "}, ", between,
                 "max_pool: ", pool,
                 ", flatten, dense: {units: 4, name: b}, global_average_pool: {inputs: [a]}, "
                 "dense: {units: 4, name: c}, add: {inputs: [b, c]}]}"),
          {11, 9, 3}};
}

std::int64_t count_padding(const graph::Graph& graph) {
  return std::ranges::count_if(graph.nodes, [](const graph::Node& node) {
    return std::holds_alternative<graph::ZeroPad>(node.op);
  });
}

}  // namespace

TEST_CASE(
    "Pool: padding of a ReLU's output inside the pooling equals ZeroPad before it bit by bit") {
  struct Case {
    std::string padding, pool;
    bool is_folded = true;
  };
  const std::vector<Case> cases{{"1", "{pool_size: 3, strides: 2}"},
                                {"[0, 1, 2, 1]", "{pool_size: 3}"},
                                {"1", "{pool_size: 3, strides: 1, padding: same}"},
                                // A window would hold nothing but padding.
                                {"1", "{pool_size: 2, strides: 1, padding: same}", false}};
  for (const Setup& setup : setups()) {
    CAPTURE(to_string(setup));
    backend::Backend& backend = open(setup);
    for (const std::string activation : {"relu", "relu6"}) {
      for (const Case& tested : cases) {
        CAPTURE(activation);
        CAPTURE(tested.padding);
        CAPTURE(tested.pool);
        const Net apart = make_net(activation, tested.padding, kUnchanged, tested.pool);
        const Net net = make_net(activation, tested.padding, "", tested.pool);
        const graph::Graph padded = training_graph(apart, setup.type);
        const graph::Graph graph = training_graph(net, setup.type);
        CHECK(count_padding(padded) == 1);
        CHECK(count_padding(graph) == (tested.is_folded ? 0 : 1));
        const auto values = starting_values(graph, setup.type);
        const std::vector<std::int64_t> samples{5, 5, 5};
        CHECK(run_steps(backend, graph, net, values, samples) ==
              run_steps(backend, padded, apart, values, samples));
      }
    }
  }
}

}  // namespace trainer::test::fold_padding_test
