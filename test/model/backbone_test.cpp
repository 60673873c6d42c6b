#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "compile/compile.h"
#include "model/table.h"
#include "support/model.h"
#include "support/source_files.h"

namespace trainer::model {
namespace {

std::string shape_text(const Shape& shape) {
  std::string text;
  for (std::size_t i = 1; i < shape.rank(); ++i) text += concat(i > 1 ? "x" : "", shape[i]);
  return text;
}

// "global_average_pooling2d_3" -> "global_average_pooling2d": the number depends on the session.
std::string label(const std::string& name) {
  return name.starts_with("global_") ? name.substr(0, name.find("2d") + 2) : name;
}

// The layers whose outputs a layer reads.
std::string name_inputs(const graph::Graph& graph, const graph::LayerInfo& layer) {
  std::map<graph::ValueId, std::string> outputs;
  for (const graph::LayerInfo& other : graph.layers) outputs[other.output] = other.name;
  std::string names;
  for (const graph::Node& node : graph.nodes) {
    if (node.name != layer.name || layer.name == "input") continue;
    for (const graph::ValueId id : node.inputs) {
      if (!outputs.contains(id) || outputs[id] == layer.name) continue;
      names += concat(names.empty() ? "" : ",", outputs[id]);
    }
  }
  return names.empty() ? "-" : names;
}

void check_table(const std::string& file, const std::string& backbone, const Shape& image,
                 std::int64_t classes) {
  const bool top = backbone.find("include_top: true") != std::string::npos;
  const bool pooled = backbone.find("pooling") != std::string::npos;
  const std::string head = top ? ""
                           : pooled
                               ? ", head: [{dense: {units: 4, name: head}}]"
                               : ", head: [{flatten: {name: f}}, {dense: {units: 4, name: head}}]";
  const auto graph =
      test::build("{backbone: " + backbone + head + "}", test::sample(image, classes));
  const auto rows = layer_table(graph);
  std::ifstream in(test::source_file("test/keras/backbones/") + file + ".txt");
  REQUIRE(in.good());
  std::size_t i = 0;
  for (std::string line; std::getline(in, line); ++i) {
    REQUIRE(i < rows.size());
    const graph::LayerInfo& layer = graph.layers[i];
    std::ostringstream ours;
    ours << label(layer.name) << ' ' << layer.kind << ' ' << shape_text(graph[layer.output].shape)
         << ' ' << rows[i].parameters << ' ' << name_inputs(graph, layer);
    CHECK(ours.str() == line);
  }
  const std::size_t rest = top ? 0 : pooled ? 1 : 2;
  CHECK(i + rest == rows.size());
}

std::vector<std::string> trained(const std::string& freeze) {
  const auto graph =
      test::build("{backbone: {name: vgg16, freeze: " + freeze + "}, head: [flatten, dense: 4]}",
                  test::sample({32, 32, 3}, 4));
  std::vector<std::string> names;
  for (const graph::LayerInfo& layer : graph.layers) {
    if (layer.trainable && layer.name != "input") names.push_back(layer.name);
  }
  return names;
}

const std::vector<std::string> kHead{"flatten", "dense"};
std::vector<std::string> with_head(std::vector<std::string> names) {
  names.insert(names.end(), kHead.begin(), kHead.end());
  return names;
}

template <class T>
int count(const graph::Graph& graph) {
  int number = 0;
  for (const graph::Node& node : graph.nodes) number += std::holds_alternative<T>(node.op);
  return number;
}

graph::Graph build_small(const std::string& backbone) {
  return test::build("{backbone: {" + backbone + "}, head: [global_average_pool, dense: 4]}",
                     test::sample({64, 64, 3}, 4));
}

// The name and rate of each layer that drops whole samples, in order.
std::vector<std::pair<std::string, double>> drop_path_rates(const std::string& backbone) {
  std::vector<std::pair<std::string, double>> rates;
  for (const graph::Node& node : build_small(backbone).nodes) {
    const auto* drop = std::get_if<graph::Dropout>(&node.op);
    if (drop == nullptr) continue;
    CHECK(drop->unit == graph::Dropout::Unit::kSample);
    rates.emplace_back(node.name, drop->rate);
  }
  return rates;
}

std::string print_graph(const std::string& backbone) {
  std::ostringstream text;
  graph::print(build_small(backbone), text);
  return text.str();
}

}  // namespace

TEST_CASE("backbone has the layers, order, shapes and parameter counts of Keras") {
  check_table("vgg16", "{name: vgg16}", {224, 224, 3}, 4);
  check_table("vgg16_top", "{name: vgg16, include_top: true}", {64, 96, 3}, 10);
  check_table("mobilenet_v2", "{name: mobilenet_v2}", {224, 224, 3}, 4);
  check_table("mobilenet_v2_odd", "{name: mobilenet_v2, alpha: 0.35, pooling: avg}", {101, 67, 3},
              4);
  check_table("mobilenet_v2_wide", "{name: mobilenet_v2, alpha: 1.3, pooling: max}", {96, 96, 3},
              4);
  check_table("mobilenet_v2_top", "{name: mobilenet_v2, alpha: 0.5, include_top: true}",
              {160, 160, 3}, 7);
  check_table("resnet50", "{name: resnet50}", {224, 224, 3}, 4);
  check_table("resnet50_top", "{name: resnet50, include_top: true}", {97, 64, 3}, 5);
}

// Keras's count_params() of the networks for 1000 classes; torchvision's and the statistics of
// batch norm for resnet18 and 34.
TEST_CASE("backbone: include_top gives the parameter count of Keras") {
  const std::map<std::string, std::int64_t> parameters{
      {"resnet18", 11689512 + 9600},    {"resnet34", 21797672 + 17024},
      {"resnet101", 44707176},          {"densenet121", 8062504},
      {"efficientnet_b0", 5330571 - 7}, {"efficientnet_b1", 7856239 - 7},
      {"efficientnet_b2", 9177569 - 7}, {"efficientnet_b3", 12320535 - 7},
      {"mobilenet_v3_small", 2554968},  {"mobilenet_v3_large", 5507432},
      {"convnext_tiny", 28589128}};
  for (const auto& [name, expected] : parameters) {
    CAPTURE(name);
    const auto graph = test::build("{backbone: {name: " + name + ", include_top: true}}",
                                   test::sample({64, 64, 3}, 1000));
    std::int64_t count = 0;
    for (const LayerRow& row : layer_table(graph)) count += row.parameters;
    CHECK(count == expected);
    CHECK(graph[graph.outputs[0]].shape == Shape{kBatch, 1000});
  }
}

// The rates by which timm and Keras drop the blocks of their networks, by the name of the layer.
// EfficientNet and MobileNet count every block and drop those with a shortcut; `intervals` is what
// their formula rate * block / intervals divides by.
TEST_CASE("drop_path: the rate of each block is that of timm's formula") {
  struct Case {
    const char* name;
    int intervals, first, last;  // blocks that are dropped, counted from 0
    const char *first_name, *last_name;
    std::size_t dropped;
  };
  const Case cases[] = {
      {"efficientnet_b0", 16, 2, 14, "block2b_drop", "block6d_drop", 9},
      {"efficientnet_b2", 23, 1, 22, "block1b_drop", "block7b_drop", 16},
      {"mobilenet_v2", 17, 2, 15, "block_2_drop", "block_15_drop", 10},
      {"mobilenet_v3_large", 15, 2, 14, "expanded_conv_2_drop", "expanded_conv_14_drop", 9},
      {"mobilenet_v3_small", 11, 2, 10, "expanded_conv_2_drop", "expanded_conv_10_drop", 6},
      {"resnet50", 15, 1, 15, "conv2_block2_drop", "conv5_block3_drop", 15},
      {"resnet101", 32, 1, 32, "conv2_block2_drop", "conv5_block3_drop", 32},
      {"resnet18", 7, 1, 7, "layer1.1.drop_path", "layer4.1.drop_path", 7},
      {"resnet34", 15, 1, 15, "layer1.1.drop_path", "layer4.2.drop_path", 15},
      {"convnext_tiny", 17, 1, 17, "convnext_tiny_stage_0_block_1_stochastic_depth",
       "convnext_tiny_stage_3_block_2_stochastic_depth", 17}};
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const auto rates = drop_path_rates(concat("name: ", c.name, ", drop_path: 0.3"));
    CHECK(rates.size() == c.dropped);
    for (std::size_t i = 1; i < rates.size(); ++i) CHECK(rates[i].second > rates[i - 1].second);
    REQUIRE(!rates.empty());
    CHECK(rates.front().first == c.first_name);
    CHECK(rates.back().first == c.last_name);
    CHECK(rates.front().second == doctest::Approx(0.3 * c.first / c.intervals).epsilon(1e-6));
    CHECK(rates.back().second == doctest::Approx(0.3 * c.last / c.intervals).epsilon(1e-6));
  }
}

TEST_CASE("drop_path: ConvNeXt, the rates rise in equal steps from 0") {
  const auto rates = drop_path_rates("name: convnext_tiny, drop_path: 0.34");
  REQUIRE(rates.size() == 17);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    CHECK(rates[i].second == doctest::Approx(0.02 * static_cast<double>(i + 1)).epsilon(1e-6));
  }
}

TEST_CASE("drop_path: it is off by default except for 0.2 in EfficientNet, as in Keras") {
  for (const char* name :
       {"resnet50", "resnet18", "mobilenet_v2", "mobilenet_v3_large", "convnext_tiny"}) {
    CAPTURE(name);
    CHECK(drop_path_rates(concat("name: ", name)).empty());
    CHECK(print_graph(concat("name: ", name, ", drop_path: 0")) ==
          print_graph(concat("name: ", name)));
  }
  CHECK(drop_path_rates("name: efficientnet_b0, drop_path: 0").empty());
  CHECK(print_graph("name: efficientnet_b0, drop_path: 0.2") ==
        print_graph("name: efficientnet_b0"));
  CHECK(drop_path_rates("name: efficientnet_b0").size() == 9);
}

TEST_CASE("drop_path is not part of the graphs of evaluation and export") {
  for (const char* name :
       {"resnet50", "resnet18", "mobilenet_v2", "mobilenet_v3_small", "convnext_tiny"}) {
    CAPTURE(name);
    const auto evaluation = [&](const char* more) {
      const graph::Graph graph =
          compile::evaluation_graph(build_small(concat("name: ", name, more)), {});
      CHECK(count<graph::Dropout>(graph) == 0);
      return graph.nodes.size();
    };
    CHECK(evaluation(", drop_path: 0.3") == evaluation(""));
  }
}

TEST_CASE("freeze: slices select layers as Python slices Keras's list of layers") {
  const std::vector<std::string> last4{"block5_conv1", "block5_conv2", "block5_conv3",
                                       "block5_pool"};
  CHECK(trained("'[:-4]'") == with_head(last4));
  CHECK(trained("'[0:15]'") == with_head(last4));
  CHECK(trained("15") == with_head(last4));  // the input layer is the first
  CHECK(trained("all") == kHead);
  CHECK(trained("'[:]'") == kHead);
  CHECK(trained("'[:100]'") == kHead);
  CHECK(trained("none").size() == 18 + 2);
  CHECK(trained("'[:1]'").size() == 18 + 2);
  CHECK(trained("'[5:2]'").size() == 18 + 2);
  CHECK(trained("'[-4:-3]'").size() == 17 + 2);
  CHECK(trained("[block1_*, block2_*, block3_*, block4_*]") == with_head(last4));
  CHECK(trained("'block?_conv1'").size() == 13 + 2);
}

TEST_CASE("freeze: a list of slices and patterns selects the layers that any of them selects") {
  const std::vector<std::string> block5{"block5_conv1", "block5_conv2", "block5_conv3",
                                        "block5_pool"};
  const std::vector<std::string> block2{"block2_conv1", "block2_conv2", "block2_pool"};
  CHECK(trained("['[:-4]']") == with_head(block5));
  CHECK(trained("'block[1-4]_*'") == with_head(block5));
  CHECK(trained("['block[!25]_*', 'block5_*']") == with_head(block2));
  CHECK(trained("['[:4]', block3_conv1, '[8:-4]', 'block5_conv[12]']") ==
        with_head({"block2_conv1", "block2_conv2", "block2_pool", "block5_conv3", "block5_pool"}));
  CHECK(trained("['[-1:]', 'block[1-5]_conv?']") ==
        with_head({"block1_pool", "block2_pool", "block3_pool", "block4_pool"}));
}

TEST_CASE("freeze: a list is printed as it was read") {
  const auto written = [](const std::string& freeze) {
    const config::Config config = test::build_config("{backbone: {name: vgg16, freeze: " + freeze +
                                                     "}, head: [flatten, dense: 4]}");
    const auto leaves = config::leaves(config);
    return std::find_if(leaves.begin(), leaves.end(),
                        [](const auto& leaf) { return leaf.first == "model.backbone.freeze"; })
        ->second;
  };
  CHECK(written("['[:-4]', block1_conv1, 'block[2-3]*']") ==
        "[\"[:-4]\", block1_conv1, \"block[2-3]*\"]");
  CHECK(written("[:-4]") == "\"[:-4]\"");
  CHECK(written("['[:-4]']") == "\"[:-4]\"");
  CHECK(written("block1_conv1") == "[block1_conv1]");
}

TEST_CASE("freeze: a wrong entry is an error at its line and column") {
  const auto place = [](const std::string& freeze) {
    try {
      trained(freeze);
    } catch (const ConfigError& error) {
      return to_string(error.diagnostics().at(0).loc);
    }
    return std::string("no mistake");
  };
  CHECK(place("20") == "test.yaml:1:41");
  CHECK(place("block9_*") == "test.yaml:1:41");
  CHECK(place("[block1_*, block9_*]") == "test.yaml:1:52");
  CHECK(place("[block1_*, '[5:2]']") == "test.yaml:1:52");
  CHECK(place("['[:2]', 'block[6-9]*']") == "test.yaml:1:50");
}

TEST_CASE("freeze: patterns that match no layer and counts beyond the list are an error") {
  CHECK_THROWS_WITH_AS(trained("[block9_*]"),
                       doctest::Contains("is named 'block9_*'; its 18 layers are block1_conv1 to"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(trained("[block1_*, 'block[6-9]*']"),
                       doctest::Contains("no layer of the backbone is named 'block[6-9]*'"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(trained("[block1_*, '[30:]']"),
                       doctest::Contains("the slice selects none of the 19 layers"), ConfigError);
  CHECK_THROWS_WITH_AS(trained("20"), doctest::Contains("is 20, but the backbone has 19 layers"),
                       ConfigError);
}

TEST_CASE("backbone: batch norms have the epsilon and the momentum of the variant's library") {
  const auto check = [](const std::string& backbone, float epsilon, float momentum) {
    CAPTURE(backbone);
    const graph::Graph graph = build_small(backbone);
    int norms = 0, averages = 0;
    for (const graph::Node& node : graph.nodes) {
      const auto* norm = std::get_if<graph::BatchNorm>(&node.op);
      const auto* moving = std::get_if<graph::UpdateStatistics>(&node.op);
      if (norm != nullptr) CHECK(norm->epsilon == epsilon);
      if (moving != nullptr) CHECK(moving->momentum == momentum);
      norms += norm != nullptr;
      averages += moving != nullptr;
    }
    CHECK(norms > 0);
    CHECK(averages == norms);
  };
  for (const std::string name : {"resnet50", "resnet101"}) {
    check("name: " + name, 1.001e-5f, 0.99f);
    check("name: " + name + ", variant: torchvision", 1e-5f, 0.9f);
  }
  check("name: resnet18", 1e-5f, 0.9f);
}

TEST_CASE("backbone: images below 32 pixels are an error as in Keras") {
  CHECK_THROWS_WITH_AS(
      test::build("{backbone: vgg16, head: [flatten, dense: 4]}", test::sample({31, 64, 3}, 4)),
      doctest::Contains("at least 32x32"), ConfigError);
}

TEST_CASE(
    "training_graph: frozen layers at the start have no backward nodes and fused activations") {
  const auto graph =
      test::build("{backbone: {name: vgg16, freeze: '[:-4]'}, head: [flatten, dense: 4]}",
                  test::sample({32, 32, 3}, 4));
  const auto training = compile::training_graph(graph, {});
  std::set<std::string> backward;
  int gradients = 0;
  for (const graph::Node& node : training.nodes) {
    if (node.phase == graph::Phase::kBackward || node.phase == graph::Phase::kUpdate)
      backward.insert(node.name);
  }
  for (const graph::Value& value : training.values)
    gradients += value.role == graph::Role::kGradient;
  CHECK(gradients == 3 * 2 + 2);
  for (const std::string& name : backward)
    CHECK((name.starts_with("block5") || name == "dense" || name == "flatten"));
  CHECK(count<graph::ConvBackwardData>(training) == 2);  // block5_conv1 needs none for its input
  CHECK(count<graph::Activate>(training) == 0);
}

TEST_CASE("training_graph folds frozen batch norm in the prepare phase without statistics") {
  const auto graph = test::build(
      "{backbone: {name: mobilenet_v2, freeze: all}, head: [global_average_pool, dense: 4]}",
      test::sample({64, 64, 3}, 4));
  const auto training = compile::training_graph(graph, {});
  CHECK(count<graph::FoldBatchNorm>(training) == 52);
  CHECK(count<graph::BatchNorm>(training) + count<graph::BatchNormInference>(training) == 0);
  CHECK(count<graph::UpdateStatistics>(training) == 0);
  CHECK(count<graph::Activate>(training) + count<graph::ZeroPad>(training) == 0);
  CHECK(count<graph::ConvBackwardData>(training) + count<graph::ConvBackwardWeights>(training) ==
        0);
  for (const graph::Node& node : training.nodes) {
    CHECK((node.phase == graph::Phase::kPrepare) ==
          std::holds_alternative<graph::FoldBatchNorm>(node.op));
  }
}

TEST_CASE("batch_norm with eval: gamma and beta are trained and the statistics are constant") {
  const auto graph = test::build(
      "{backbone: {name: mobilenet_v2, batch_norm: eval, freeze: '[:-10]'}, "
      "head: [global_average_pool, dense: 4]}",
      test::sample({64, 64, 3}, 4));
  const auto training = compile::training_graph(graph, {});
  CHECK(count<graph::BatchNorm>(training) + count<graph::UpdateStatistics>(training) == 0);
  CHECK(count<graph::BatchNormInferenceBackward>(training) > 0);
  const auto rows = layer_table(graph);
  for (const LayerRow& row : rows) {
    if (row.kind == "BatchNormalization") CHECK(row.batch_norm == "moving");
  }
}

TEST_CASE("layer_table shows the source of weights, trainable parameters and mode of batch norm") {
  const auto rows =
      layer_table(test::build("{backbone: {name: mobilenet_v2, weights: w.h5, freeze: '[:-3]'}, "
                              "head: [global_average_pool, dense: 4]}",
                              test::sample({64, 64, 3}, 4)));
  std::map<std::string, LayerRow> by_name;
  for (const LayerRow& row : rows) by_name[row.name] = row;
  CHECK(by_name["Conv1"].weights == "w.h5");
  CHECK_FALSE(by_name["Conv1"].trainable);
  CHECK(by_name["Conv1"].trainable_parameters == 0);
  CHECK(by_name["bn_Conv1"].batch_norm == "moving");
  CHECK(by_name["Conv_1_bn"].batch_norm == "batch");
  CHECK(by_name["Conv_1_bn"].trainable_parameters == 2 * 1280);
  CHECK(by_name["dense"].weights.empty());
  CHECK(by_name["Conv1_relu"].weights.empty());
}

TEST_CASE(
    "describe_model counts the layers and parameters of the backbone, and those that are trained") {
  const std::string text =
      "{backbone: {name: mobilenet_v2, freeze: '[:-3]'}, head: [global_average_pool, dense: 4]}";
  const config::Config config = test::build_config(text);
  // Conv_1 has 320 x 1280 parameters, its batch norm 2 x 1280 and the dense layer 1281 x 4.
  CHECK(
      describe_model(config.model, layer_table(test::build(text, test::sample({64, 64, 3}, 4)))) ==
      "mobilenet_v2, 155 layers, 2,263,108 parameters, of which 417,284 are trained");
  const std::string layers = "{layers: [flatten, dense: 4]}";
  CHECK(describe_model(test::build_config(layers).model,
                       layer_table(test::build(layers, test::sample({2, 2, 1}, 4)))) ==
        "2 layers, 20 parameters, of which 20 are trained");
}

}  // namespace trainer::model
