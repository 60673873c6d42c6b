#include "model/table.h"

#include <doctest/doctest.h>

#include "support/model.h"

namespace trainer::model {

TEST_CASE("layer_table: a CNN with batch norm has the shapes and parameter counts of Keras") {
  const auto graph = test::build(R"(
  layers:
    - conv: {filters: 32, activation: relu}
    - max_pool: {pool_size: 2}
    - conv: {filters: 64, activation: relu}
    - batch_norm
    - max_pool: {pool_size: 2}
    - flatten
    - dense: {units: 10})",
                                 test::sample({28, 28, 1}, 10));
  const auto rows = layer_table(graph);
  REQUIRE(rows.size() == 8);
  CHECK(rows[0].kind == "InputLayer");
  CHECK(rows[1].name == "conv2d");
  CHECK(rows[1].kind == "Conv2D");
  CHECK(rows[1].output_shape == "[batch, 26, 26, 32]");
  CHECK(rows[1].parameters == 320);
  CHECK(rows[1].flops == 2 * 26 * 26 * 32 * 9);
  CHECK(rows[3].parameters == 18496);
  CHECK(rows[4].parameters == 256);
  CHECK(rows[4].trainable_parameters == 128);
  CHECK(rows[5].parameters == 0);
  CHECK(rows[7].parameters == 16010);
  CHECK(rows[7].flops == 2 * 1600 * 10);
}

}  // namespace trainer::model
