// Whole compiled graphs against test/golden/compile_*.txt. TRAINER_UPDATE_GOLDEN=1 writes the
// files.
#include "support/golden.h"

#include <doctest/doctest.h>

#include <sstream>

#include "compile/compile.h"
#include "support/model.h"

namespace trainer::compile {
namespace {

void check_golden(const graph::Graph& graph, const std::string& name) {
  std::ostringstream printed;
  print(graph, printed);
  test::check_golden("compile_" + name + ".txt", printed.str());
}

const char* kCnn = R"(
  layers:
    - conv: {filters: 4, activation: relu}
    - max_pool: {pool_size: 2}
    - conv: {filters: 8, activation: relu}
    - max_pool: {pool_size: 2}
    - flatten
    - dropout: 0.5
    - dense: {units: 10})";

const char* kResidual = R"(
  layers:
    - conv: {filters: 4, padding: same, use_bias: false, kernel_regularizer: {l2: 0.01}}
    - batch_norm
    - activation: {function: relu, name: stem}
    - conv: {filters: 4, padding: same, kernel_regularizer: {l2: 0.02}}
    - batch_norm: {scale: false, name: norm}
    - add: {inputs: [stem, norm]}
    - activation: gelu
    - average_pool: {pool_size: 2, name: pool}
    - concatenate: {inputs: [pool, pool]}
    - global_average_pool
    - dense: {units: 3, activation: tanh}
    - batch_norm
    - dense: {units: 2})";

graph::Graph cnn() { return test::build(kCnn, test::sample({10, 10, 1}, 10)); }
graph::Graph residual() { return test::build(kResidual, test::sample({6, 6, 3}, 2)); }

Options adam() {
  Options options;
  options.update.rule = graph::AdamRule{};
  return options;
}

Options momentum() {
  Options options;
  options.update.rule = graph::SgdRule{0.9f, true};
  options.update.ema = 0.99f;
  options.update.weight_decay = 0.001f;
  return options;
}

}  // namespace

TEST_CASE("training_graph of a CNN has the golden graphs of training and evaluation") {
  check_golden(training_graph(cnn(), adam()), "cnn_training");
  check_golden(evaluation_graph(cnn(), adam()), "cnn_evaluation");
}

TEST_CASE("training_graph of a CNN in bfloat16 has the golden graph") {
  Options options = adam();
  options.activations = DType::kBFloat16;
  check_golden(training_graph(cnn(), options), "cnn_bf16_training");
}

TEST_CASE("training_graph of a residual net with penalties and averages has the golden graphs") {
  check_golden(training_graph(residual(), momentum()), "residual_training");
  check_golden(evaluation_graph(residual(), momentum()), "residual_evaluation");
  check_golden(evaluation_graph(residual(), momentum(), true), "residual_prediction");
}

}  // namespace trainer::compile
