#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "compile/compile.h"
#include "compile/ops.h"
#include "compile/passes.h"
#include "support/model.h"

namespace trainer::compile {
namespace {

using graph::Graph;
using graph::Node;
using graph::Phase;

Options sgd() {
  Options options;
  options.update.rule = graph::SgdRule{};
  return options;
}

Graph model(const std::string& layers, Shape image = {12, 12, 2}) {
  return test::build("{layers: [" + layers + ", flatten, dense: {units: 2}]}",
                     test::sample(std::move(image), 2));
}

std::string forward(const std::string& layers, const Options& options = sgd()) {
  return ops(training_graph(model(layers), options), Phase::kForward);
}

std::string backward(const std::string& layers, const Options& options = sgd()) {
  return ops(training_graph(model(layers), options), Phase::kBackward);
}

std::string evaluation(const std::string& layers) {
  return ops(evaluation_graph(model(layers), sgd()), Phase::kForward);
}

void freeze_layer(Graph& graph, const std::string& name) {
  for (graph::LayerInfo& layer : graph.layers) {
    if (layer.name == name) layer.trainable = false;
  }
}

}  // namespace

TEST_CASE("activations fuse into the op before them") {
  CHECK(forward("conv: {filters: 2, activation: relu}") ==
        "preprocess conv reshape dense loss class_rank");
  CHECK(forward("conv: {filters: 2}, batch_norm, activation: relu") ==
        "preprocess conv batch_norm reshape dense loss class_rank");
  CHECK(forward("max_pool, activation: relu") ==
        "preprocess pool activate reshape dense loss class_rank");
}

TEST_CASE("what cannot fuse stays and does not keep the rest from it") {
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

TEST_CASE("zero padding moves into the convolution side by side") {
  const Graph graph = training_graph(
      model("zero_pad: {padding: [1, 2, 3, 4]}, conv: {filters: 2, padding: same}"), sgd());
  const auto& window = std::get<graph::Conv>(graph.nodes[1].op).window;
  const std::array<std::int64_t, 2> before{2, 4}, after{3, 5};  // top and left, bottom and right
  CHECK(window.pad_before == before);
  CHECK(window.pad_after == after);
}

TEST_CASE("activations that need their input fuse only where nothing is differentiated") {
  CHECK(forward("conv: {filters: 2, activation: gelu}") ==
        "preprocess conv activate reshape dense loss class_rank");
  CHECK(evaluation("conv: {filters: 2, activation: gelu}") == "preprocess conv reshape dense loss");
  Graph frozen = model("conv: {filters: 2, activation: swish}");
  freeze_layer(frozen, "conv2d");
  CHECK(ops(training_graph(frozen, sgd()), Phase::kForward) ==
        "preprocess conv reshape dense loss class_rank");
}

TEST_CASE("an activation stays apart when its input is used twice or the backend cannot fuse") {
  CHECK(forward(
            "conv: {filters: 2, name: a}, activation: {function: relu, name: b}, add: {inputs: [a, "
            "b]}") == "preprocess conv activate add reshape dense loss class_rank");
  Options options = sgd();
  options.capabilities.fuse_activation = false;
  CHECK(forward("conv: {filters: 2, activation: relu}", options) ==
        "preprocess conv activate reshape dense loss class_rank");
}

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

TEST_CASE("the derivative of an activation moves into the pooling gradient") {
  const std::string fused =
      "dense_backward_data dense_backward_weights reshape pool_backward conv_backward_weights";
  const std::string apart =
      "dense_backward_data dense_backward_weights reshape pool_backward activate_backward "
      "conv_backward_weights";
  CHECK(backward("conv: {filters: 2, activation: relu}, max_pool") == fused);
  CHECK(backward(
            "conv: {filters: 2, activation: leaky_relu}, max_pool: {pool_size: 3, strides: 2}") ==
        fused);
  CHECK(backward("conv: {filters: 2, activation: tanh}, max_pool") == apart);
  CHECK(backward("conv: {filters: 2, activation: relu}, average_pool") == apart);
  // One that stays apart does not keep the next from moving.
  CHECK(backward("conv: {filters: 2, activation: relu}, max_pool, "
                 "conv: {filters: 2, activation: tanh, padding: same}, max_pool") ==
        "dense_backward_data dense_backward_weights reshape pool_backward activate_backward "
        "conv_backward_data conv_backward_weights pool_backward conv_backward_weights");
  // The activation's output also goes elsewhere, so its gradient is a sum.
  CHECK(backward("conv: {filters: 2, activation: relu, padding: same, name: a}, "
                 "max_pool: {pool_size: 3, strides: 1, padding: same, name: b}, "
                 "add: {inputs: [a, b]}")
            .find("activate_backward") != std::string::npos);
  const Graph graph =
      training_graph(model("conv: {filters: 2, activation: relu}, max_pool"), sgd());
  for (const Node& node : graph.nodes) {
    const auto* op = std::get_if<graph::PoolBackward>(&node.op);
    if (!op) continue;
    CHECK(op->activation.kind == graph::Activation::Kind::kRelu);
    CHECK(node.inputs.size() == 3);
    CHECK(graph[node.inputs[2]].shape == graph[node.inputs[0]].shape);
  }
}

TEST_CASE("the derivative at a pooled sum is not that of one of its terms") {
  // The gradient of the sum is that of its term a, as p has none.
  CHECK(backward("conv: {filters: 2, padding: same, activation: relu, name: a}, "
                 "max_pool: {pool_size: 3, strides: 1, padding: same, inputs: [input], name: p}, "
                 "add: {inputs: [a, p]}, max_pool") ==
        "dense_backward_data dense_backward_weights reshape pool_backward activate_backward "
        "conv_backward_weights");
  // The pooling before it still takes the derivative of its own.
  CHECK(backward("conv: {filters: 2, padding: same, activation: relu}, max_pool, "
                 "conv: {filters: 2, padding: same, activation: relu, name: a}, "
                 "max_pool: {inputs: [input], name: p}, add: {inputs: [a, p]}, max_pool") ==
        "dense_backward_data dense_backward_weights reshape pool_backward activate_backward "
        "conv_backward_data conv_backward_weights pool_backward conv_backward_weights");
  // One whose result several nodes read does not keep the pooling before it from that either.
  CHECK(backward("conv: {filters: 2, padding: same, activation: relu}, max_pool, "
                 "conv: {filters: 2, padding: same, activation: relu, name: a}, "
                 "conv: {filters: 2, padding: same, activation: relu, inputs: [a], name: b}, "
                 "add: {inputs: [a, b]}, max_pool")
            .ends_with("pool_backward conv_backward_weights"));
}

TEST_CASE("each branch of convolutions and poolings fuses for itself") {
  Options options = sgd();
  options.capabilities.fuse_conv_max_pool = true;
  options.capabilities.conv_max_pool_channels = 2;  // as many as the images have
  const char* const fusable =
      "conv: {filters: 2, name: c, inputs: [input]}, max_pool: {name: p}, flatten: {name: f}, ";
  for (const char* const other : {
           "conv: {filters: 2, name: a, activation: tanh, inputs: [input]}, max_pool: {name: b}",
           "conv: {filters: 2, name: a, inputs: [input]}, average_pool: {name: b}",
           "conv: {filters: 2, name: a, inputs: [input]}, max_pool: {name: b, pool_size: 3}",
           "conv: {filters: 2, padding: same, name: a, inputs: [input]}, "
           "conv: {filters: 2, padding: same, name: d}, max_pool: {name: e}, "
           "max_pool: {name: q, inputs: [input]}, add: {inputs: [e, q], name: b}",
           "conv: {filters: 2, padding: same, name: a, inputs: [input]}, max_pool: {name: e}, "
           "average_pool: {name: q, inputs: [a]}, add: {inputs: [e, q], name: b}",
       }) {
    const std::string layers =
        concat(other, ", flatten: {name: g}, ", fusable, "concatenate: {inputs: [f, g]}");
    CAPTURE(layers);
    const std::string ops = forward(layers, options);
    CHECK(ops.find("conv_max_pool") != std::string::npos);
    CHECK(ops.find("conv_max_pool") == ops.rfind("conv_max_pool"));
  }
}

TEST_CASE("the first convolution and its pooling fuse where the backend has that") {
  Options options = sgd();
  options.capabilities.fuse_conv_max_pool = true;
  const auto fuses = [&](const std::string& layers) {
    return forward(layers, options).find("conv_max_pool") != std::string::npos;
  };
  CHECK(fuses("conv: {filters: 2, activation: relu}, max_pool"));
  CHECK(fuses("conv: {filters: 2, padding: same}, max_pool"));
  CHECK(fuses("zero_pad: {padding: 1}, conv: {filters: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, activation: tanh}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, strides: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, dilation_rate: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, groups: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, kernel_size: 2}, max_pool"));
  CHECK(fuses("conv: {filters: 2, kernel_size: 5}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2}, average_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2}, max_pool: {pool_size: 3, strides: 2}"));
  CHECK_FALSE(fuses("conv: {filters: 2}, max_pool: {padding: [1, 1, 1, 1]}"));
  CHECK_FALSE(fuses("batch_norm, conv: {filters: 2}, max_pool"));
  CHECK_FALSE(
      fuses("conv: {filters: 2, padding: same, name: a}, max_pool: {name: b}, "
            "average_pool: {name: c, inputs: [a]}, add: {inputs: [b, c]}"));
  options.capabilities.conv_max_pool_channels = 1;
  CHECK_FALSE(fuses("conv: {filters: 2, activation: relu}, max_pool"));
}

TEST_CASE("batch norm folds into a convolution in evaluation") {
  const Graph graph =
      evaluation_graph(model("conv: {filters: 2}, batch_norm, activation: relu"), sgd());
  CHECK(ops(graph, Phase::kPrepare) == "fold_batch_norm");
  CHECK(ops(graph, Phase::kForward) == "preprocess conv reshape dense loss");
  const Node& fold = graph.nodes[0];
  CHECK(graph[fold.outputs[0]].role == graph::Role::kDerived);
  CHECK(graph[fold.outputs[0]].name == "conv2d/folded_kernel");
  CHECK(std::get<graph::Conv>(graph.nodes[2].op).activation.kind == graph::Activation::Kind::kRelu);
  CHECK(std::get<graph::Conv>(graph.nodes[2].op).bias);
  CHECK(evaluation("conv: {filters: 2, activation: relu}, batch_norm") ==
        "preprocess conv batch_norm_inference reshape dense loss");
  CHECK(evaluation("conv: {filters: 2, name: a}, batch_norm: {name: b}, add: {inputs: [a, b]}") ==
        "preprocess conv batch_norm_inference add reshape dense loss");
}

TEST_CASE("batch norms fold behind one that cannot, and the parameters of each into its own") {
  const Graph graph = evaluation_graph(
      model("max_pool, batch_norm: {name: first}, conv: {filters: 2, name: a}, "
            "batch_norm: {name: b}, conv: {filters: 3, name: c}, batch_norm: {name: d}"),
      sgd());
  CHECK(ops(graph, Phase::kForward) ==
        "preprocess pool batch_norm_inference conv conv reshape dense loss");
  CHECK(ops(graph, Phase::kPrepare) == "fold_batch_norm fold_batch_norm");
  for (const auto& [at, conv, norm] : {std::tuple{0, "a", "b"}, {1, "c", "d"}}) {
    const Node& fold = graph.nodes[static_cast<std::size_t>(at)];
    std::string inputs;
    for (const graph::ValueId id : fold.inputs) inputs += graph[id].name + " ";
    CHECK(inputs == concat(conv, "/kernel ", conv, "/bias ", norm, "/gamma ", norm, "/beta ", norm,
                           "/moving_mean ", norm, "/moving_variance "));
    CHECK(graph[fold.outputs[0]].shape == graph[fold.inputs[0]].shape);
    CHECK(graph[fold.outputs[1]].shape == graph[fold.inputs[1]].shape);
  }
}

TEST_CASE("frozen layers: no updates, batch norm on moving statistics, folded") {
  Graph frozen = model("conv: {filters: 2}, batch_norm, conv: {filters: 2}, batch_norm");
  freeze_layer(frozen, "conv2d");
  freeze_layer(frozen, "batch_normalization");
  const Graph graph = training_graph(frozen, sgd());
  CHECK(ops(graph, Phase::kPrepare) == "fold_batch_norm");
  CHECK(ops(graph, Phase::kForward) ==
        "preprocess conv conv batch_norm reshape dense loss class_rank");
  std::string updated;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kUpdate) updated += concat(graph[node.inputs[0]].name, " ");
  }
  CHECK(updated ==
        "batch_normalization_1/moving_mean dense/kernel dense/bias batch_normalization_1/gamma "
        "batch_normalization_1/beta conv2d_1/kernel conv2d_1/bias ");
}

TEST_CASE("a frozen batch norm above trained layers passes gradients on") {
  Graph frozen = model("conv: {filters: 2}, batch_norm");
  freeze_layer(frozen, "batch_normalization");
  const Graph graph = training_graph(frozen, sgd());
  CHECK(ops(graph, Phase::kPrepare).empty());
  CHECK(ops(graph, Phase::kBackward) ==
        "dense_backward_data dense_backward_weights reshape batch_norm_inference_backward "
        "conv_backward_weights");
}

TEST_CASE("dropout trains and does not evaluate") {
  CHECK(forward("dropout: 0.5") == "preprocess dropout reshape dense loss class_rank");
  CHECK(evaluation("dropout: 0.5") == "preprocess reshape dense loss");
}

TEST_CASE("prediction has no labels and gives logits") {
  const Graph graph = evaluation_graph(model("max_pool"), sgd(), true);
  CHECK(graph.inputs.size() == 1);
  CHECK(graph.outputs.size() == 1);
  CHECK(graph[graph.outputs[0]].shape == Shape{kBatch, 2});
  CHECK(ops(graph, Phase::kForward) == "preprocess pool reshape dense");
}

TEST_CASE(
    "bfloat16 is for activations and their gradients, not logits, loss, statistics, parameters") {
  Options options = sgd();
  options.activations = DType::kBFloat16;
  const Graph graph =
      training_graph(model("conv: {filters: 2}, batch_norm, max_pool, dropout: 0.1"), options);
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kUpdate) continue;
    for (const graph::ValueId id : node.outputs) {
      const graph::Value& value = graph[id];
      CAPTURE(value.name);
      CAPTURE(name_of(node.op));
      const bool logits = id == graph.outputs[0] || std::holds_alternative<graph::Loss>(node.op);
      const bool image = value.shape.rank() == 4 && value.shape.batched();
      if (value.type == DType::kUInt8) continue;
      if (logits || !value.shape.batched()) CHECK(value.type == DType::kFloat32);
      if (image) CHECK(value.type == DType::kBFloat16);
    }
  }
}

TEST_CASE("bfloat16 reaches what is behind a prepared node and not logits of other ops") {
  Options options = sgd();
  options.activations = DType::kBFloat16;
  Graph frozen = model("conv: {filters: 2}, batch_norm, conv: {filters: 2}, flatten, dense: 3");
  freeze_layer(frozen, "conv2d");
  freeze_layer(frozen, "batch_normalization");
  const Graph graph = training_graph(frozen, options);
  REQUIRE(graph.nodes[0].phase == Phase::kPrepare);
  int dense = 0;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kForward) continue;
    const DType type = graph[node.outputs[0]].type;
    if (std::holds_alternative<graph::Conv>(node.op)) CHECK(type == DType::kBFloat16);
    if (!std::holds_alternative<graph::Dense>(node.op)) continue;
    CHECK(type == (++dense == 1 ? DType::kBFloat16 : DType::kFloat32));
  }
  CHECK(dense == 2);
  // Logits that a reshaping makes are those of the node before it.
  const Graph other = training_graph(
      test::build("{layers: [conv: {filters: 2, kernel_size: 4}, global_average_pool]}",
                  test::sample({4, 4, 1}, 2)),
      options);
  CHECK(other[other.outputs[0]].type == DType::kBFloat16);
}

TEST_CASE("updates: one a parameter in the order of their gradients, with slots") {
  Options options = sgd();
  options.update.rule = graph::AdamRule{};
  options.update.weight_decay = 0.5f;
  options.update.ema = 0.9f;
  Graph forward_graph = model("conv: {filters: 2, kernel_regularizer: {l2: 0.25}}");
  forward_graph[forward_graph.find("conv2d/bias")].decay = false;
  forward_graph[forward_graph.find("conv2d/bias")].learning_rate_multiplier = 2;
  const Graph graph = training_graph(forward_graph, options);
  std::vector<const Node*> updates;
  for (const Node& node : graph.nodes) {
    if (std::holds_alternative<graph::Update>(node.op)) updates.push_back(&node);
  }
  REQUIRE(updates.size() == 4);
  CHECK(graph[updates[0]->inputs[0]].name == "dense/kernel");
  CHECK(graph[updates[2]->inputs[0]].name == "conv2d/kernel");
  CHECK(graph[updates[2]->inputs[1]].name == "conv2d/kernel/gradient");
  CHECK(graph[updates[2]->inputs[2]].name == "conv2d/kernel/m");
  CHECK(graph[updates[2]->inputs[4]].name == "conv2d/kernel/average");
  CHECK(graph[updates[2]->inputs[4]].initial.b == graph[updates[2]->inputs[0]].initial.b);
  CHECK(graph[updates[2]->inputs[2]].initial.b == 0);
  CHECK(updates[2]->name == "conv2d");
  CHECK(std::get<graph::Update>(updates[2]->op).l2 == 0.25f);
  CHECK(std::get<graph::Update>(updates[2]->op).weight_decay == 0.5f);
  CHECK(std::get<graph::Update>(updates[3]->op).weight_decay == 0);
  CHECK(std::get<graph::Update>(updates[3]->op).learning_rate_multiplier == 2);
  REQUIRE(graph.outputs.size() == 4);
  CHECK(graph[graph.outputs[2]].type == DType::kInt32);
  CHECK(graph[graph.outputs[3]].shape == Shape{1});
}

TEST_CASE("with averages, evaluation reads those of the trained parameters") {
  Options options = sgd();
  options.update.ema = 0.9f;
  Graph frozen = model("conv: {filters: 2}, conv: {filters: 2}");
  freeze_layer(frozen, "conv2d");
  const Graph graph = evaluation_graph(frozen, options);
  CHECK(graph.find("dense/kernel") == graph::kNoValue);
  CHECK(graph.find("dense/kernel/average") != graph::kNoValue);
  CHECK(graph.find("conv2d/kernel") != graph::kNoValue);
  const Graph training = training_graph(frozen, options);
  for (const graph::Value& value : graph.values) {
    if (graph::is_persistent(value.role)) CHECK(training.find(value.name) != graph::kNoValue);
  }
}

TEST_CASE("trim: pixels that a pooling drops are not computed, down to the first convolution") {
  Options options = sgd();
  options.capabilities.fuse_conv_max_pool = true;
  // 28 -> 26 -> 13 -> 11 -> 5: the second pooling reads 10 of 11, which take 12 of 13.
  const Graph graph = training_graph(model("conv: {filters: 32, activation: relu}, max_pool, conv: "
                                           "{filters: 64, activation: relu}, max_pool",
                                           {28, 28, 1}),
                                     options);
  const auto output_of = [&](const char* op, std::size_t which) -> Shape {
    for (const Node& node : graph.nodes) {
      if (std::string(graph::name_of(node.op)) == op && which-- == 0)
        return graph[node.outputs[0]].shape;
    }
    return {};
  };
  CHECK(output_of("conv_max_pool", 0) == Shape{kBatch, 12, 12, 32});
  CHECK(output_of("conv", 0) == Shape{kBatch, 10, 10, 64});
  CHECK(output_of("pool", 0) == Shape{kBatch, 5, 5, 64});
  CHECK(output_of("conv_backward_data", 0) == Shape{kBatch, 12, 12, 32});
}

TEST_CASE(
    "trim: nothing changes where every pixel is read, or where somebody else reads the rest") {
  Options options = sgd();
  const Graph even =
      training_graph(model("conv: {filters: 4, padding: same}, max_pool", {28, 28, 1}), options);
  const Graph shared = training_graph(
      model("conv: {filters: 4, name: c}, max_pool: {pool_size: 3, name: p}, flatten: {name: a}, "
            "flatten: {name: b, inputs: [c]}, concatenate: {inputs: [a, b]}",
            {28, 28, 1}),
      options);
  const auto conv_output = [](const Graph& graph) {
    for (const Node& node : graph.nodes) {
      if (std::holds_alternative<graph::Conv>(node.op)) return graph[node.outputs[0]].shape;
    }
    return Shape{};
  };
  CHECK(conv_output(even) == Shape{kBatch, 28, 28, 4});
  CHECK(conv_output(shared) == Shape{kBatch, 26, 26, 4});
}

TEST_CASE("trim: how far padding and both axes let it") {
  struct Row {
    const char* layers;
    Shape image, convolved;
  };
  const Row rows[] = {
      // 13 pixels with one of padding on either side; the pooling reads 12, which need none behind.
      {"conv: {filters: 2, padding: same}, max_pool", {13, 13, 1}, {kBatch, 12, 12, 2}},
      {"conv: {filters: 2, padding: same}, max_pool", {13, 12, 1}, {kBatch, 12, 12, 2}},
      {"conv: {filters: 2, padding: same}, max_pool", {12, 13, 1}, {kBatch, 12, 12, 2}},
      // Without padding the rest of the image would be left, which libraries do not take.
      {"conv: {filters: 2}, max_pool", {13, 13, 1}, {kBatch, 11, 11, 2}},
      {"conv: {filters: 2}, max_pool", {13, 14, 1}, {kBatch, 11, 12, 2}},
      {"conv: {filters: 2}, max_pool", {14, 13, 1}, {kBatch, 12, 11, 2}},
      // A stride reads less; the first convolution is trimmed to what the second reads.
      {"conv: {filters: 2, padding: same}, conv: {filters: 2, kernel_size: 1, strides: 2}",
       {12, 12, 1},
       {kBatch, 11, 11, 2}},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.layers));
    CAPTURE(to_string(row.image));
    const Graph graph = training_graph(model(row.layers, row.image), sgd());
    CHECK(graph[graph.nodes[1].outputs[0]].shape == row.convolved);
  }
}

TEST_CASE("trim: what is pooled need not be a convolution's") {
  // 49 numbers as an image, of which the pooling reads 6 x 6.
  const Graph graph =
      training_graph(model("flatten, dense: 49, reshape: [7, 7, 1], max_pool"), sgd());
  const auto reshaped =
      std::find_if(graph.values.begin(), graph.values.end(), [](const graph::Value& value) {
        return value.shape == Shape{kBatch, 7, 7, 1};
      });
  CHECK(reshaped != graph.values.end());
}

TEST_CASE("differentiate: nothing is added where nothing is trained") {
  Graph frozen = model("conv: {filters: 2}");
  for (graph::Value& value : frozen.values) value.trainable = false;
  CHECK(differentiate(frozen, sgd()).nodes.size() == frozen.nodes.size());
}

TEST_CASE("layers still name their outputs when values are numbered anew") {
  Graph whole = model("conv: {filters: 2}, batch_norm, activation: relu, dropout: 0.5, max_pool");
  whole.layers.emplace_back().name = "nothing";
  const Graph graph = evaluation_graph(whole, sgd());
  REQUIRE(graph.values.size() < whole.values.size());
  for (const graph::LayerInfo& layer : graph.layers) {
    CAPTURE(layer.name);
    if (layer.name == "nothing") CHECK(layer.output == graph::kNoValue);
    if (layer.name == "max_pooling2d") CHECK(graph[layer.output].shape == Shape{kBatch, 5, 5, 2});
    if (layer.name == "dense") CHECK(layer.output == graph.outputs[0]);
    for (const ValueId id : layer.parameters) CHECK(graph[id].name.starts_with(layer.name + "/"));
  }
}

TEST_CASE("tidy: what no output needs is removed, with the values that it alone reads") {
  const Graph whole = training_graph(model("max_pool"), sgd());
  Graph graph = whole;
  const ValueId unused =
      graph.add1(graph::Activate{}, {graph.nodes.front().outputs[0]}, "unused", {});
  graph.add1(graph::Activate{}, {unused}, "unused too", {});
  REQUIRE(graph.nodes.size() == whole.nodes.size() + 2);
  const Graph left = tidy(graph, sgd());
  CHECK(left.nodes.size() == whole.nodes.size());
  CHECK(left.values.size() == whole.values.size());
}

TEST_CASE("passes have names and print when asked to") {
  const auto names = pass_names();
  CHECK(names.front() == "remove_loss");
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  CHECK(names.back() == "tidy");
  std::ostringstream out;
  Options options = sgd();
  options.print_to = &out;
  options.print_after = "fuse_activation";
  training_graph(model("max_pool"), options);
  CHECK(out.str().starts_with("after fuse_activation:\nvalues:\n"));
  CHECK(out.str().find("after differentiate") == std::string::npos);
  options.print_after = "all";
  training_graph(model("max_pool"), options);
  CHECK(out.str().find("after differentiate:\n") != std::string::npos);
}

}  // namespace trainer::compile
