// Activations computed by the op before them.
#include <doctest/doctest.h>

#include <string>

#include "compile/models.h"

namespace trainer::compile {
namespace {

using graph::Graph;
using graph::Phase;

}  // namespace

TEST_CASE("fuse_activation fuses an activation behind a convolution or batch norm") {
  CHECK(forward("conv: {filters: 2, activation: relu}") ==
        "preprocess conv reshape dense loss class_rank");
  CHECK(forward("conv: {filters: 2}, batch_norm, activation: relu") ==
        "preprocess conv batch_norm reshape dense loss class_rank");
  CHECK(forward("max_pool, activation: relu") ==
        "preprocess pool activate reshape dense loss class_rank");
}

TEST_CASE(
    "fuse_activation and fold_padding: nodes that cannot be fused stay, later ones are fused") {
  struct Row {
    const char* layers;
    const char* ops;  // between the preprocessing and the last layers
  };
  const Row rows[] = {
      // Activations: of a pooling, a second one, one that no backend fuses, one that is read twice.
      {"max_pool, activation: relu, conv: {filters: 2, activation: relu}", "pool activate conv"},
      {"conv: {filters: 2, activation: relu}, activation: tanh", "conv activate"},
      {"conv: {filters: 2, activation: hard_swish}, conv: {filters: 2, activation: relu}",
       "conv activate conv"},
      {"conv: {filters: 2, activation: gelu}, conv: {filters: 2, activation: relu}",
       "conv activate conv"},
      {"conv: {filters: 2, name: a}, activation: {function: relu, name: b}, add: {inputs: [a, b]}, "
       "conv: {filters: 2, activation: relu}",
       "conv activate add conv"},
      // Padding: before a pooling, read twice, before a convolution.
      {"zero_pad: {padding: 1}, max_pool, zero_pad: {padding: 1}, conv: {filters: 2}",
       "zero_pad pool conv"},
      {"zero_pad: {padding: 1, name: z}, conv: {filters: 2, padding: same, name: c}, "
       "add: {inputs: [z, c]}, zero_pad: {padding: 1}, conv: {filters: 2}",
       "zero_pad conv add conv"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.layers));
    CHECK(forward(row.layers) == concat("preprocess ", row.ops, " reshape dense loss class_rank"));
  }
  // In evaluation nothing is differentiated, but what no backend fuses stays.
  CHECK(evaluation("conv: {filters: 2, activation: hard_swish}") ==
        "preprocess conv activate reshape dense loss");
}

TEST_CASE(
    "fuse_activation: an activation whose gradient needs its input is fused only without "
    "gradient") {
  CHECK(forward("conv: {filters: 2, activation: gelu}") ==
        "preprocess conv activate reshape dense loss class_rank");
  CHECK(evaluation("conv: {filters: 2, activation: gelu}") == "preprocess conv reshape dense loss");
  Graph frozen = model("conv: {filters: 2, activation: swish}");
  freeze_layer(frozen, "conv2d");
  CHECK(ops(training_graph(frozen, sgd()), Phase::kForward) ==
        "preprocess conv reshape dense loss class_rank");
}

TEST_CASE("fuse_activation does not fuse an input that is used twice") {
  CHECK(forward(
            "conv: {filters: 2, name: a}, activation: {function: relu, name: b}, add: {inputs: [a, "
            "b]}") == "preprocess conv activate add reshape dense loss class_rank");
}

}  // namespace trainer::compile
