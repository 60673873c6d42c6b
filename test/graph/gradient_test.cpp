// Which nodes each gradient rule emits. The numbers are checked where ops are computed.
#include <doctest/doctest.h>

#include "graph/graph.h"

namespace trainer::graph::gradient_test {
namespace {

struct Rule {
  Graph graph;
  std::vector<ValueId> gradients;

  ValueId value(const char* name, Shape shape, Role role = Role::kActivation,
                DType type = DType::kFloat32) {
    Value made;
    made.name = name;
    made.shape = std::move(shape);
    made.role = role;
    made.type = type;
    return graph.add_value(std::move(made));
  }
  ValueId parameter(const char* name, Shape shape) {
    return value(name, std::move(shape), Role::kParameter);
  }

  // Applies the rule of `op` with a gradient for its first output.
  void run(const Op& op, const std::vector<ValueId>& inputs, std::vector<bool> wanted = {}) {
    const auto outputs = graph.add(op, inputs, "layer", {"m.yaml", 2, 1});
    std::vector<ValueId> dy(outputs.size(), kNoValue);
    dy[0] = value("dy", graph[outputs[0]].shape, Role::kActivation, graph[outputs[0]].type);
    if (wanted.empty()) wanted.assign(inputs.size(), true);
    gradients = differentiate(graph, 0, dy, wanted);
    REQUIRE(gradients.size() == inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (gradients[i] == kNoValue) continue;
      CHECK(graph[gradients[i]].shape == graph[inputs[i]].shape);
    }
  }

  // Names of the emitted nodes.
  std::string emitted() const {
    std::string names;
    for (std::size_t i = 1; i < graph.nodes.size(); ++i) {
      CHECK(graph.nodes[i].phase == Phase::kBackward);
      CHECK(graph.nodes[i].name == "layer");
      CHECK(graph.nodes[i].loc.line == 2);
      if (!names.empty()) names += ' ';
      names += name_of(graph.nodes[i].op);
    }
    return names;
  }
};

const Activation kRelu{Activation::Kind::kRelu, 0};
const Activation kGelu{Activation::Kind::kGelu, 0};
const Shape kImage{kBatch, 6, 6, 4};

}  // namespace

TEST_CASE("differentiate: Conv adds nodes for the activation, then data, then weights") {
  Rule rule;
  const ValueId x = rule.value("x", kImage);
  const ValueId kernel = rule.parameter("layer/kernel", {3, 3, 4, 8});
  const ValueId bias = rule.parameter("layer/bias", {8});
  const Conv conv{{{3, 3}}, 1, true, kRelu};
  SUBCASE("all") {
    rule.run(conv, {x, kernel, bias});
    CHECK(rule.emitted() == "activate_backward conv_backward_data conv_backward_weights");
    CHECK(rule.graph[rule.gradients[1]].name == "layer/kernel/gradient");
    CHECK(rule.graph[rule.gradients[1]].role == Role::kGradient);
    CHECK(rule.graph[rule.gradients[2]].name == "layer/bias/gradient");
    CHECK(rule.graph[rule.gradients[0]].role == Role::kActivation);
  }
  SUBCASE("not wanted: x") {
    rule.run(conv, {x, kernel, bias}, {false, true, true});
    CHECK(rule.emitted() == "activate_backward conv_backward_weights");
    CHECK(rule.gradients[0] == kNoValue);
  }
  SUBCASE("frozen") {
    rule.run(conv, {x, kernel, bias}, {true, false, false});
    CHECK(rule.emitted() == "activate_backward conv_backward_data");
  }
  SUBCASE("without bias and activation") {
    rule.run(Conv{{{3, 3}}, 1, false, {}}, {x, kernel});
    CHECK(rule.emitted() == "conv_backward_data conv_backward_weights");
    CHECK(rule.graph.nodes[2].outputs.size() == 1);
  }
  SUBCASE("a fused activation whose derivative needs the input is our mistake") {
    CHECK_THROWS_AS(rule.run(Conv{{{3, 3}}, 1, false, kGelu}, {x, kernel}), std::logic_error);
  }
}

TEST_CASE("differentiate: Dense has gradients of weights in float32 and of x in its type") {
  Rule rule;
  const ValueId x = rule.value("x", {kBatch, 5}, Role::kActivation, DType::kBFloat16);
  const ValueId kernel = rule.parameter("layer/kernel", {5, 3});
  const auto y = rule.graph.add1(Dense{}, {x, kernel}, "layer", {"m.yaml", 2, 1});
  rule.graph[y].type = DType::kFloat32;  // logits
  const ValueId dy = rule.value("dy", {kBatch, 3});
  rule.gradients = differentiate(rule.graph, 0, {dy}, {true, true});
  CHECK(rule.emitted() == "dense_backward_data dense_backward_weights");
  CHECK(rule.graph[rule.gradients[0]].type == DType::kBFloat16);
  CHECK(rule.graph[rule.gradients[1]].type == DType::kFloat32);
}

TEST_CASE("differentiate: Pool keeps an index for max and none for average") {
  Rule rule;
  const ValueId x = rule.value("x", kImage);
  Pool pool{Pool::Kind::kMax, {{2, 2}, {2, 2}}, false};
  SUBCASE("max") {
    rule.run(pool, {x});
    CHECK(rule.emitted() == "pool_backward");
    CHECK(std::get<Pool>(rule.graph.nodes[0].op).keep_index);
    REQUIRE(rule.graph.nodes[0].outputs.size() == 2);
    const ValueId index = rule.graph.nodes[0].outputs[1];
    CHECK(rule.graph[index].type == DType::kUInt8);
    CHECK(rule.graph.nodes[1].inputs[1] == index);
  }
  SUBCASE("max with the index already there") {
    pool.keep_index = true;
    rule.run(pool, {x});
    CHECK(rule.graph.nodes[0].outputs.size() == 2);
    CHECK(rule.graph.nodes[1].inputs[1] == rule.graph.nodes[0].outputs[1]);
  }
  SUBCASE("average") {
    pool.kind = Pool::Kind::kAverage;
    rule.run(pool, {x});
    CHECK(rule.graph.nodes[0].outputs.size() == 1);
    CHECK(rule.graph.nodes[1].inputs.size() == 1);
  }
  SUBCASE("global average") {
    rule.run(GlobalPool{Pool::Kind::kAverage}, {x});
    CHECK(rule.graph.nodes[1].inputs.size() == 1);
  }
  SUBCASE("global max") {
    rule.run(GlobalPool{Pool::Kind::kMax}, {x});
    CHECK(rule.graph.nodes[1].inputs[1] == x);
    CHECK(rule.graph.nodes[1].inputs[2] == rule.graph.nodes[0].outputs[0]);
  }
}

TEST_CASE("differentiate: Activate uses its output where possible and else its input") {
  Rule rule;
  const ValueId x = rule.value("x", {kBatch, 5});
  SUBCASE("relu") {
    rule.run(Activate{kRelu}, {x});
    CHECK(rule.graph.nodes[1].inputs[0] == rule.graph.nodes[0].outputs[0]);
  }
  SUBCASE("gelu") {
    rule.run(Activate{kGelu}, {x});
    CHECK(rule.graph.nodes[1].inputs[0] == x);
  }
  CHECK(rule.emitted() == "activate_backward");
}

TEST_CASE("differentiate: Softmax adds one node") {
  Rule rule;
  rule.run(Softmax{}, {rule.value("x", {kBatch, 5})});
  CHECK(rule.emitted() == "softmax_backward");
}

TEST_CASE(
    "differentiate: BatchNorm adds one node for three gradients, with y for a fused activation") {
  Rule rule;
  const ValueId x = rule.value("x", kImage);
  const ValueId gamma = rule.parameter("layer/gamma", {4});
  const ValueId beta = rule.parameter("layer/beta", {4});
  SUBCASE("plain") {
    rule.run(BatchNorm{}, {x, gamma, beta});
    CHECK(rule.emitted() == "batch_norm_backward");
    CHECK(rule.graph.nodes[1].inputs.size() == 5);
  }
  SUBCASE("with an activation") {
    rule.run(BatchNorm{1e-3f, kRelu}, {x, gamma, beta});
    CHECK(rule.emitted() == "batch_norm_backward");
    CHECK(rule.graph.nodes[1].inputs.back() == rule.graph.nodes[0].outputs[0]);
  }
  SUBCASE("a constant gamma gets no gradient") {
    rule.run(BatchNorm{}, {x, gamma, beta}, {true, false, true});
    CHECK(rule.gradients[1] == kNoValue);
    CHECK(rule.graph[rule.gradients[2]].name == "layer/beta/gradient");
    CHECK(rule.graph[rule.graph.nodes[1].outputs[1]].role == Role::kActivation);
  }
  SUBCASE("inference form") {
    const ValueId mean = rule.value("layer/moving_mean", {4}, Role::kStatistic);
    const ValueId variance = rule.value("layer/moving_variance", {4}, Role::kStatistic);
    rule.run(BatchNormInference{}, {x, gamma, beta, mean, variance},
             {true, true, true, false, false});
    CHECK(rule.emitted() == "batch_norm_inference_backward");
    CHECK(rule.gradients[3] == kNoValue);
  }
}

TEST_CASE("differentiate: Dropout has the same rate, layer and seed backward") {
  Rule rule;
  rule.run(Dropout{0.25f, 3, 17}, {rule.value("x", {kBatch, 5})});
  const auto& op = std::get<Dropout>(rule.graph.nodes[1].op);
  CHECK(op.rate == 0.25f);
  CHECK(op.layer == 3);
  CHECK(op.seed == 17);
}

TEST_CASE("differentiate: Add, Concat, Reshape and ZeroPad move gradients back") {
  Rule rule;
  const ValueId x = rule.value("x", kImage);
  SUBCASE("add") {
    rule.run(Add{}, {x, x}, {true, false});
    CHECK(rule.emitted().empty());
    CHECK(rule.graph[rule.gradients[0]].name == "dy");
    CHECK(rule.gradients[1] == kNoValue);
  }
  SUBCASE("concat") {
    const ValueId narrow = rule.value("narrow", {kBatch, 6, 6, 2});
    rule.run(Concat{}, {x, narrow, x}, {true, false, true});
    CHECK(rule.emitted() == "slice slice");
    CHECK(std::get<Slice>(rule.graph.nodes[2].op).begin == 6);
    CHECK(std::get<Slice>(rule.graph.nodes[2].op).end == 10);
  }
  SUBCASE("reshape") {
    rule.run(Reshape{{kBatch, 144}}, {x});
    CHECK(rule.emitted() == "reshape");
  }
  SUBCASE("zero pad") {
    rule.run(ZeroPad{1, 2, 3, 4}, {x});
    CHECK(rule.emitted() == "crop");
    CHECK(std::get<Crop>(rule.graph.nodes[1].op).right == 4);
  }
  SUBCASE("crop") {
    rule.run(Crop{1, 2, 3, 0}, {x});
    CHECK(rule.emitted() == "zero_pad");
    CHECK(std::get<ZeroPad>(rule.graph.nodes[1].op).left == 3);
  }
}

TEST_CASE("differentiate: Attention keeps the log-sums of its rows, and PrependTokens cuts dy") {
  Rule rule;
  SUBCASE("attention") {
    rule.run(Attention{2}, {rule.value("qkv", {kBatch, 7, 36})});
    CHECK(rule.emitted() == "attention_backward");
    CHECK(std::get<Attention>(rule.graph.nodes[0].op).log_sums);
    CHECK(rule.graph.nodes[0].outputs.size() == 2);
    CHECK(rule.graph[rule.graph.nodes[0].outputs[1]].shape == Shape{kBatch, 2, 7});
  }
  SUBCASE("tokens and first tokens") {
    rule.run(PrependTokens{}, {rule.value("x", {kBatch, 7, 4}), rule.parameter("first", {2, 4})});
    CHECK(rule.emitted() == "crop crop sum_product");
    CHECK(std::get<Crop>(rule.graph.nodes[1].op).top == 2);
    CHECK(std::get<Crop>(rule.graph.nodes[2].op).bottom == 7);
  }
  SUBCASE("first tokens alone are trained") {
    rule.run(PrependTokens{}, {rule.value("x", {kBatch, 7, 4}), rule.parameter("first", {2, 4})},
             {false, true});
    CHECK(rule.emitted() == "crop sum_product");
  }
}

TEST_CASE(
    "differentiate: Multiply, AddBias, GroupNorm, UpSample and ConvBackwardData add their nodes") {
  Rule rule;
  const ValueId x = rule.value("x", kImage);
  SUBCASE("multiply") {
    rule.run(Multiply{}, {x, rule.parameter("factor", {4})});
    CHECK(rule.emitted() == "multiply sum_product");
  }
  SUBCASE("add bias") {
    rule.run(AddBias{}, {x, rule.parameter("bias", {4})});
    CHECK(rule.emitted() == "sum_product");
    CHECK(rule.graph[rule.gradients[0]].name == "dy");
  }
  SUBCASE("group norm, of which gamma alone is trained") {
    rule.run(GroupNorm{2}, {x, rule.parameter("gamma", {4}), rule.parameter("beta", {4})},
             {false, true, false});
    CHECK(rule.emitted() == "group_norm_backward");
    CHECK(rule.gradients[0] == kNoValue);
    CHECK(rule.gradients[1] != kNoValue);
  }
  SUBCASE("response norm") {
    rule.run(ResponseNorm{}, {x, rule.parameter("gamma", {4})});
    CHECK(rule.emitted() == "response_norm_backward multiply sum_product");
  }
  SUBCASE("up sample") {
    rule.run(UpSample{UpSample::Kind::kBilinear, 2, 3}, {x});
    CHECK(rule.emitted() == "up_sample_backward");
  }
  SUBCASE("transposed convolution") {
    const Window window{{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}};
    rule.run(ConvBackwardData{window, 1, {kBatch, 12, 12, 3}},
             {x, rule.parameter("kernel", {2, 2, 3, 4})});
    CHECK(rule.emitted() == "conv conv_backward_weights");
  }
}

TEST_CASE("differentiate: Loss has the gradient of the logits as its second output") {
  Graph graph;
  Value logits, labels;
  logits.shape = {kBatch, 10};
  labels.shape = {kBatch};
  labels.type = DType::kInt32;
  const ValueId x = graph.add_value(logits), t = graph.add_value(labels);
  graph.add1(Loss{}, {x, t}, "loss", {});
  const auto gradients = differentiate(graph, 0, {kNoValue}, {true, false});
  CHECK(graph.nodes.size() == 1);
  CHECK(std::get<Loss>(graph.nodes[0].op).gradient);
  REQUIRE(graph.nodes[0].outputs.size() == 2);
  CHECK(gradients == std::vector<ValueId>{graph.nodes[0].outputs[1], kNoValue});
}

TEST_CASE("differentiate adds no node and no gradient where the output has no gradient") {
  Rule rule;
  const ValueId x = rule.value("x", {kBatch, 5});
  rule.graph.add1(Activate{kRelu}, {x}, "layer", {});
  CHECK(differentiate(rule.graph, 0, {kNoValue}, {true}) == std::vector<ValueId>{kNoValue});
  CHECK(rule.graph.nodes.size() == 1);
}

TEST_CASE("differentiate throws std::logic_error for ops of the backward pass") {
  Rule rule;
  const ValueId x = rule.value("x", {kBatch, 5});
  CHECK_THROWS_AS(rule.run(Slice{0, 2}, {x}), std::logic_error);
  Rule other;
  CHECK_THROWS_AS(other.run(L2Penalty{1}, {other.parameter("w", {3})}), std::logic_error);
}

TEST_CASE(
    "differentiate adds no node for an op without a gradient of its output or a wanted input") {
  const Window two{{2, 2}, {2, 2}};
  const Op ops[] = {Activate{kRelu},
                    Pool{Pool::Kind::kMax, two, false},
                    Pool{Pool::Kind::kAverage, two, false},
                    GlobalPool{},
                    UpSample{},
                    Dropout{},
                    Reshape{{kBatch, 144}},
                    ZeroPad{1, 1, 1, 1}};
  for (const Op& op : ops) {
    CAPTURE(std::string(name_of(op)));
    Rule rule;
    const ValueId x = rule.value("x", kImage);
    rule.run(op, {x}, {false});
    CHECK(rule.emitted() == "");
    CHECK(rule.gradients[0] == kNoValue);
    const std::size_t outputs = rule.graph.nodes[0].outputs.size();
    const std::vector<ValueId> none(outputs, kNoValue);
    CHECK(differentiate(rule.graph, 0, none, {true})[0] == kNoValue);
    CHECK(rule.emitted() == "");
  }
}

}  // namespace trainer::graph::gradient_test
