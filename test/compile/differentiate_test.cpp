// Which gradients a training graph computes, and in which order.
#include <doctest/doctest.h>

#include "compile/models.h"

namespace trainer::compile {
namespace {

using graph::Graph;
using graph::Phase;

}  // namespace

TEST_CASE("gradients: only what is wanted, in reverse order") {
  CHECK(backward("conv: {filters: 2, activation: relu}, conv: {filters: 2}") ==
        "dense_backward_data dense_backward_weights reshape conv_backward_data "
        "conv_backward_weights activate_backward conv_backward_weights");
  Graph frozen = model("conv: {filters: 2}, conv: {filters: 2}");
  freeze_layer(frozen, "conv2d");
  CHECK(ops(training_graph(frozen, sgd()), Phase::kBackward) ==
        "dense_backward_data dense_backward_weights reshape conv_backward_weights");
  freeze_layer(frozen, "conv2d_1");
  CHECK(ops(training_graph(frozen, sgd()), Phase::kBackward) == "dense_backward_weights");
}

TEST_CASE("what flows into a value that is used twice is summed") {
  CHECK(backward("conv: {filters: 2, name: a}, conv: {filters: 2, padding: same, name: b}, "
                 "add: {inputs: [a, b]}") ==
        "dense_backward_data dense_backward_weights reshape conv_backward_data "
        "conv_backward_weights add conv_backward_weights");
}

TEST_CASE("differentiate: nothing is added where nothing is trained") {
  Graph frozen = model("conv: {filters: 2}");
  for (graph::Value& value : frozen.values) value.trainable = false;
  CHECK(differentiate(frozen, sgd()).nodes.size() == frozen.nodes.size());
}

}  // namespace trainer::compile
