// Padding computed by the convolution behind it.
#include <doctest/doctest.h>

#include <array>
#include <variant>

#include "compile/models.h"

namespace trainer::compile {
namespace {

using graph::Graph;

}  // namespace

TEST_CASE("zero padding moves into the convolution side by side") {
  const Graph graph = training_graph(
      model("zero_pad: {padding: [1, 2, 3, 4]}, conv: {filters: 2, padding: same}"), sgd());
  const auto& window = std::get<graph::Conv>(graph.nodes[1].op).window;
  const std::array<std::int64_t, 2> before{2, 4}, after{3, 5};  // top and left, bottom and right
  CHECK(window.pad_before == before);
  CHECK(window.pad_after == after);
}

}  // namespace trainer::compile
